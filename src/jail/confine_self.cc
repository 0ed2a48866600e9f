#include "jail/confine_self.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/fd.h"
#include "base/sys.h"

namespace jail {

using base::fail_errno;
using base::Result;

namespace {

// A folder that exists everywhere: the empty root is mounted on it.
constexpr const char* kRoot = "/tmp";
constexpr unsigned long kRootFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

Result<base::Fd> copy_of_mount(const std::string& folder) {
  base::Fd copy(static_cast<int>(
      ::syscall(SYS_open_tree, AT_FDCWD, folder.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (!copy) {
    return fail_errno(errno, "open_tree ", folder);
  }
  mount_attr attributes{.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
  if (::syscall(SYS_mount_setattr, copy.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) !=
      0) {
    return fail_errno(errno, "mount_setattr ", folder);
  }
  return copy;
}

Result<void> load_filter(uint32_t standard, uint32_t listed, std::span<const int> system_calls) {
  scmp_filter_ctx context = ::seccomp_init(standard);
  int failed = context == nullptr ? -ENOMEM : 0;
  for (const int call : system_calls) {
    failed = failed != 0 ? failed : ::seccomp_rule_add(context, listed, call, 0);
  }
  failed = failed != 0 ? failed : ::seccomp_load(context);
  ::seccomp_release(context);
  if (failed != 0) {
    return fail_errno(-failed, "install the system call filter");
  }
  return {};
}

}  // namespace

Result<void> enter_own_namespaces() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET) != 0) {
    return fail_errno(errno,
                      "make namespaces (sysctl kernel.unprivileged_userns_clone and "
                      "user.max_user_namespaces must allow it)");
  }
  RETURN_IF_ERROR(base::sys::write_file("/proc/self/setgroups", "deny"));
  RETURN_IF_ERROR(base::sys::write_file("/proc/self/uid_map", base::cat(user, " ", user, " 1\n")));
  return base::sys::write_file("/proc/self/gid_map", base::cat(group, " ", group, " 1\n"));
}

Result<void> enter_empty_root(const std::string& folder, const std::string& shown_as) {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return fail_errno(errno, "make mounts private");
  }
  base::Fd shown;
  if (!folder.empty()) {
    ASSIGN_OR_RETURN(shown, copy_of_mount(folder));
  }
  if (::mount("root", kRoot, "tmpfs", kRootFlags, "size=4k") != 0) {
    return fail_errno(errno, "mount the empty root");
  }
  if (shown) {
    const std::string place = base::cat(kRoot, "/", shown_as);
    RETURN_IF_ERROR(base::sys::make_folder(place, 0755));
    if (::syscall(SYS_move_mount, shown.get(), "", AT_FDCWD, place.c_str(),
                  MOVE_MOUNT_F_EMPTY_PATH) != 0) {
      return fail_errno(errno, "move_mount to ", place);
    }
  }
  if (::mount("root", kRoot, nullptr, MS_REMOUNT | MS_RDONLY | kRootFlags, "size=4k") != 0) {
    return fail_errno(errno, "make the empty root read-only");
  }
  if (::chdir(kRoot) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
      ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) {
    return fail_errno(errno, "enter the empty root");
  }
  return {};
}

Result<void> give_up_privileges(const SelfLimits& limits) {
  __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  const rlimit no_core{};
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  const rlimit memory{RLIM_INFINITY, RLIM_INFINITY};
#else
  const rlimit memory{limits.memory_bytes, limits.memory_bytes};
#endif
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_max = std::min(descriptors.rlim_max, limits.descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::setrlimit(RLIMIT_CORE, &no_core) != 0 ||
      ::setrlimit(RLIMIT_DATA, &memory) != 0 || ::setrlimit(RLIMIT_NOFILE, &descriptors) != 0 ||
      ::syscall(SYS_capset, &head, none.data()) != 0) {
    return fail_errno(errno, "give up privileges");
  }
  return {};
}

Result<void> allow_only(std::span<const int> system_calls) {
  return load_filter(SCMP_ACT_ERRNO(EPERM), SCMP_ACT_ALLOW, system_calls);
}

Result<void> forbid(std::span<const int> system_calls) {
  return load_filter(SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), system_calls);
}

}  // namespace jail
