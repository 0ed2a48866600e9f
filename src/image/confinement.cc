#include "image/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/sys.h"
#include "jail/seccomp_filter.h"

namespace image {
namespace {

namespace sys = base::sys;

// A folder that exists everywhere and is of no use inside: the new root is built on it.
constexpr const char* kRoot = "/tmp";
constexpr const char* kRootOptions = "size=64m,mode=0755";  // manifests and credentials
constexpr std::array kProgramFolders = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"};
constexpr std::array kSettingFolders = {"/etc/ssl", "/etc/ca-certificates", "/etc/pki",
                                        "/etc/containers/certs.d", "/etc/docker/certs.d"};
constexpr std::array kSettingFiles = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"};
constexpr std::array kDevices = {"/dev/null", "/dev/urandom", "/dev/zero"};
constexpr size_t kSettingBytesMax = 1 << 20;
// Of each process here: skopeo needs about 200 MiB, unpacking less; a hostile image gets no more.
#if __has_feature(address_sanitizer)
constexpr rlim_t kMemoryBytesMax = RLIM_INFINITY;  // its shadow alone takes terabytes of addresses
#else
constexpr rlim_t kMemoryBytesMax = rlim_t{1} << 30;
#endif

// Not in Debian 12's sys/mount.h together with linux/mount.h's structs.
int move_mount_to(int from, const std::string& to) {
  return static_cast<int>(
      ::syscall(SYS_move_mount, from, "", AT_FDCWD, to.c_str(), MOVE_MOUNT_F_EMPTY_PATH));
}

Result<void> attach(const base::Fd& mount, const std::string& to) {
  RETURN_IF_ERROR(sys::make_folders(to, 0755));
  if (move_mount_to(mount.get(), to) != 0) {
    return base::fail_errno(errno, "move_mount to ", to);
  }
  return {};
}

// A copy of the host's tree at `path`, read-only, in the new root. Absent is fine.
Result<void> show(const std::string& path, bool is_device) {
  const std::string to = cat(kRoot, path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    return {};
  }
  if (S_ISLNK(info.st_mode)) {  // /bin -> usr/bin
    char target[4096];
    const ssize_t size = ::readlink(path.c_str(), target, sizeof target - 1);
    if (size > 0) {
      target[size] = '\0';
      if (::symlink(target, to.c_str()) != 0) {
        return base::fail_errno(errno, "symlink ", to);
      }
    }
    return {};
  }
  const base::Fd copy(static_cast<int>(::syscall(
      SYS_open_tree, AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE)));
  if (!copy) {
    return base::fail_errno(errno, "open_tree ", path);
  }
  mount_attr attributes{.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                    (is_device ? 0ULL : MOUNT_ATTR_NODEV)};
  if (::syscall(SYS_mount_setattr, copy.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                sizeof attributes) != 0) {
    return base::fail_errno(errno, "mount_setattr ", path);
  }
  if (S_ISDIR(info.st_mode)) {
    return attach(copy, to);
  }
  RETURN_IF_ERROR(sys::open(to, O_WRONLY | O_CREAT, 0644));
  if (move_mount_to(copy.get(), to) != 0) {
    return base::fail_errno(errno, "move_mount to ", to);
  }
  return {};
}

Result<void> copy_setting(const std::string& path) {
  const auto text = sys::read_file(path, kSettingBytesMax);
  if (!text) {
    return {};  // absent, or not for everybody's eyes
  }
  ASSIGN_OR_RETURN(const base::Fd file, sys::open(cat(kRoot, path), O_WRONLY | O_CREAT, 0644));
  return sys::write_all(file.get(), *text);
}

Result<void> fill_root(const base::Fd& work, const base::Fd& source) {
  for (const char* folder : {"/etc", "/etc/containers", "/etc/containers/registries.d",
                             "/etc/docker", "/dev", "/proc", "/run", "/tmp"}) {
    RETURN_IF_ERROR(sys::make_folder(cat(kRoot, folder), 0755));
  }
  for (const char* path : kProgramFolders) {
    RETURN_IF_ERROR(show(path, false));
  }
  for (const char* path : kSettingFolders) {
    RETURN_IF_ERROR(show(path, false));
  }
  for (const char* path : kDevices) {
    RETURN_IF_ERROR(show(path, true));
  }
  for (const char* path : kSettingFiles) {
    RETURN_IF_ERROR(copy_setting(path));
  }
  RETURN_IF_ERROR(attach(work, cat(kRoot, "/job")));
  if (source) {
    RETURN_IF_ERROR(attach(source, cat(kRoot, "/source")));
  }
  return {};
}

}  // namespace

Result<void> confine(base::Fd work, base::Fd source) {
  const rlimit no_core{};
  const rlimit memory{kMemoryBytesMax, kMemoryBytesMax};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::setrlimit(RLIMIT_CORE, &no_core) != 0 ||
      ::setrlimit(RLIMIT_DATA, &memory) != 0) {
    return base::fail_errno(errno, "give up privileges");
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return base::fail_errno(errno, "make mounts private");
  }
  if (::mount("root", kRoot, "tmpfs", MS_NOSUID | MS_NODEV, kRootOptions) != 0) {
    return base::fail_errno(errno, "mount the new root");
  }
  RETURN_IF_ERROR(fill_root(work, source));
  if (::mount("proc", cat(kRoot, "/proc").c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              nullptr) != 0) {
    return base::fail_errno(errno, "mount /proc");
  }
  if (::chdir(kRoot) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
      ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) {
    return base::fail_errno(errno, "enter the new root");
  }
  ::umask(0);
  return {};
}

Result<void> prepare_to_unpack() {
  if (::unshare(CLONE_NEWNET) != 0) {
    return base::fail_errno(errno, "leave the network");
  }
  ASSIGN_OR_RETURN(const auto filter, jail::make_seccomp_filter(jail::Profile::sandbox));
  for (const auto& program : {filter.policy, filter.last}) {
    const sock_fprog installed{.len = static_cast<unsigned short>(program.size()),
                               .filter = const_cast<sock_filter*>(program.data())};
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &installed) != 0) {
      return base::fail_errno(errno, "install the system call filter");
    }
  }
  return {};
}

}  // namespace image
