#include "jail/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <initializer_list>

namespace jail {
namespace {

using base::Fd;
using base::Result;

struct Device {
  const char* name;
  unsigned major;
  unsigned minor;
};
constexpr std::array kDevices{Device{"null", 1, 3},   Device{"zero", 1, 5},    Device{"full", 1, 7},
                              Device{"random", 1, 8}, Device{"urandom", 1, 9}, Device{"tty", 5, 0}};
struct Link {
  const char* name;
  const char* target;
};
constexpr std::array kLinks{Link{"fd", "/proc/self/fd"}, Link{"stdin", "/proc/self/fd/0"},
                            Link{"stdout", "/proc/self/fd/1"}, Link{"stderr", "/proc/self/fd/2"},
                            Link{"ptmx", "pts/ptmx"}};

Result<Fd> open_context(const char* type) {
  Fd context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context) {
    return base::fail_errno(errno, "fsopen ", type);
  }
  // Programs such as df pass over mounts whose source is "none".
  if (::fsconfig(context.get(), FSCONFIG_SET_STRING, "source", type, 0) != 0) {
    return base::fail_errno(errno, "mount option source");
  }
  return context;
}
Result<void> set_string(const Fd& context, const char* key, const std::string& value) {
  if (::fsconfig(context.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) != 0) {
    return base::fail_errno(errno, "mount option ", key);
  }
  return {};
}
Result<Fd> create(const Fd& context, const char* type, unsigned attributes) {
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return base::fail_errno(errno, "create the file system ", type);
  }
  Fd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, attributes));
  if (!mount) {
    return base::fail_errno(errno, "fsmount ", type);
  }
  return mount;
}

Result<void> set_layer(const Fd& context, const char* key, int fd) {
  if (::fsconfig(context.get(), FSCONFIG_SET_FD, key, nullptr, fd) == 0) {
    return {};
  }
  if (errno != EINVAL) {
    return base::fail_errno(errno, "overlay option ", key);
  }
  // Kernels before 6.13 take a path only.
  return set_string(context, key, base::cat("/proc/self/fd/", fd));
}

Result<void> set_lower(const Fd& context, std::span<const int> lower) {
  if (::fsconfig(context.get(), FSCONFIG_SET_FD, "lowerdir+", nullptr, lower.front()) != 0) {
    // Kernels before 6.5 take all of them in one option.
    std::string joined;
    for (const int fd : lower) {
      joined += base::cat(joined.empty() ? "" : ":", "/proc/self/fd/", fd);
    }
    return set_string(context, "lowerdir", joined);
  }
  for (const int fd : lower.subspan(1)) {
    RETURN_IF_ERROR(set_layer(context, "lowerdir+", fd));
  }
  return {};
}

Result<void> fill_dev(int dev, uid_t owner) {
  for (const Device& device : kDevices) {
    const dev_t number = makedev(device.major, device.minor);
    if (::mknodat(dev, device.name, S_IFCHR | 0666, number) != 0 ||
        ::fchmodat(dev, device.name, 0666, 0) != 0 ||
        ::fchownat(dev, device.name, owner, owner, AT_SYMLINK_NOFOLLOW) != 0) {
      return base::fail_errno(errno, "make the device ", device.name);
    }
  }
  for (const Link& link : kLinks) {
    if (::symlinkat(link.target, dev, link.name) != 0 ||
        ::fchownat(dev, link.name, owner, owner, AT_SYMLINK_NOFOLLOW) != 0) {
      return base::fail_errno(errno, "make the link ", link.name);
    }
  }
  for (const char* folder : {"pts", "shm", "mqueue"}) {
    if (::mkdirat(dev, folder, 0755) != 0 || ::fchownat(dev, folder, owner, owner, 0) != 0) {
      return base::fail_errno(errno, "make the folder ", folder);
    }
  }
  if (::fchmodat(dev, ".", 0755, 0) != 0 || ::fchownat(dev, ".", owner, owner, 0) != 0) {
    return base::fail_errno(errno, "give /dev to its owner");
  }
  return {};
}

}  // namespace

Result<Fd> clone_plain(const std::string& folder) {
  Fd tree(::open_tree(AT_FDCWD, folder.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!tree) {
    return base::fail_errno(errno, "open_tree ", folder);
  }
  return tree;
}

Result<Fd> clone_id_mapped(const std::string& folder, int user_namespace) {
  ASSIGN_OR_RETURN(Fd tree, clone_plain(folder));
  mount_attr change{};
  change.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV;
  change.userns_fd = static_cast<uint64_t>(user_namespace);
  if (::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &change, sizeof change) != 0) {
    return base::fail_errno(errno, "mount_setattr ", folder);
  }
  return tree;
}

Result<Fd> make_overlay(std::span<const int> lower, int upper, int work) {
  ASSIGN_OR_RETURN(const Fd context, open_context("overlay"));
  RETURN_IF_ERROR(set_lower(context, lower));
  RETURN_IF_ERROR(set_layer(context, "upperdir", upper));
  RETURN_IF_ERROR(set_layer(context, "workdir", work));
  // A sandbox does not outlive its host, so nothing of it needs to reach the disk by itself.
  if (::fsconfig(context.get(), FSCONFIG_SET_FLAG, "volatile", nullptr, 0) != 0) {
    return base::fail_errno(errno, "overlay option volatile");
  }
  return create(context, "overlay", MOUNT_ATTR_NODEV);
}

Result<Fd> make_sysfs() {
  ASSIGN_OR_RETURN(const Fd context, open_context("sysfs"));
  return create(context, "sysfs",
                MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

Result<Fd> make_dev(uid_t owner) {
  ASSIGN_OR_RETURN(const Fd context, open_context("tmpfs"));
  RETURN_IF_ERROR(set_string(context, "size", "64k"));
  RETURN_IF_ERROR(set_string(context, "mode", "0755"));
  ASSIGN_OR_RETURN(Fd mount, create(context, "tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  RETURN_IF_ERROR(fill_dev(mount.get(), owner));
  return mount;
}

Result<Fd> make_volume(const std::string& folder, bool read_only) {
  ASSIGN_OR_RETURN(Fd tree, clone_plain(folder));
  mount_attr change{};
  change.attr_set = MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0);
  if (::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &change, sizeof change) != 0) {
    return base::fail_errno(errno, "mount_setattr ", folder);
  }
  return tree;
}

Result<Fd> make_tmpfs(uid_t owner, int64_t size_mb, bool read_only) {
  ASSIGN_OR_RETURN(const Fd context, open_context("tmpfs"));
  RETURN_IF_ERROR(set_string(context, "size", base::cat(size_mb, "m")));
  RETURN_IF_ERROR(set_string(context, "mode", "1777"));
  RETURN_IF_ERROR(set_string(context, "uid", base::cat(owner)));
  RETURN_IF_ERROR(set_string(context, "gid", base::cat(owner)));
  constexpr unsigned kInert = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  return create(context, "tmpfs", kInert | (read_only ? MOUNT_ATTR_RDONLY : 0));
}

}  // namespace jail
