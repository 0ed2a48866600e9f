#include "node/storage_btrfs.h"

#include <errno.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/sys.h"
#include "node/storage_pool.h"

namespace node {

using base::cat;
using base::ErrorCode;
using base::fail;
using base::fail_errno;
using base::Fd;
using base::Result;

namespace {

constexpr int64_t kBytesPerMb = 1 << 20;
// Kernel 6.7: usage is counted by extent owner, which costs nothing as areas share nothing. Older
// headers lack the name.
constexpr uint64_t kQuotaEnableSimple = 4;
// The root folder of every subvolume.
constexpr ino_t kSubvolumeRootInode = 256;
// One open descriptor each; sandboxes have no business with deeper subvolumes.
constexpr int kAreaDepthMax = 128;
constexpr size_t kSysfsBytesMax = 64;

Result<void> enable_quota(const Fd& folder) {
  btrfs_ioctl_quota_ctl_args arguments{};
  arguments.cmd = kQuotaEnableSimple;
  // Repeating it is fine; EEXIST: the other kind is on already, and serves as well.
  if (::ioctl(folder.get(), BTRFS_IOC_QUOTA_CTL, &arguments) == 0 || errno == EEXIST) {
    return {};
  }
  arguments.cmd = BTRFS_QUOTA_CTL_ENABLE;
  if (::ioctl(folder.get(), BTRFS_IOC_QUOTA_CTL, &arguments) != 0) {
    return fail_errno(errno, "enable btrfs quotas");
  }
  return {};
}

template <typename Arguments>
Result<void> name_call(const Fd& folder, unsigned long request, const std::string& name,
                       const char* what) {
  Arguments arguments{};
  if (name.size() >= sizeof arguments.name) {
    return fail_errno(ENAMETOOLONG, what, ' ', name);
  }
  ::memcpy(static_cast<char*>(arguments.name), name.c_str(), name.size() + 1);
  if (::ioctl(folder.get(), request, &arguments) != 0) {
    return fail_errno(errno, what, ' ', name);
  }
  return {};
}

// Where sysfs shows the quota groups of the file system that `folder` is on.
std::string qgroups_folder(const Fd& folder) {
  btrfs_ioctl_fs_info_args info{};
  if (::ioctl(folder.get(), BTRFS_IOC_FS_INFO, &info) != 0) {
    return {};
  }
  const std::string id = base::hex({reinterpret_cast<const char*>(info.fsid), sizeof info.fsid});
  // 8-4-4-4-12 digits.
  return cat("/sys/fs/btrfs/", id.substr(0, 8), '-', id.substr(8, 4), '-', id.substr(12, 4), '-',
             id.substr(16, 4), '-', id.substr(20), "/qgroups");
}

class BtrfsStorage final : public Storage {
 public:
  BtrfsStorage(std::string driver, std::string root, Fd folder, bool own_mount)
      : driver_(std::move(driver)),
        root_(std::move(root)),
        folder_(std::move(folder)),
        qgroups_(qgroups_folder(folder_)),
        own_mount_(own_mount) {}

  Result<std::string> make(const std::string& name, int64_t storage_mb) override {
    RETURN_IF_ERROR(check_name(name));
    RETURN_IF_ERROR(name_call<btrfs_ioctl_vol_args>(folder_, BTRFS_IOC_SUBVOL_CREATE, name,
                                                    "make storage area"));
    auto filled = fill(name, storage_mb);
    if (!filled) {
      (void)remove(name);
      return std::unexpected(std::move(filled).error());
    }
    return folder(name);
  }

  Result<void> set_limit(const std::string& name, int64_t storage_mb) override {
    RETURN_IF_ERROR(check_name(name));
    ASSIGN_OR_RETURN(const auto area,
                     base::sys::open_at(folder_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    return limit(area, storage_mb);
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    RETURN_IF_ERROR(check_name(from));
    RETURN_IF_ERROR(check_name(to));
    if (::renameat2(folder_.get(), from.c_str(), folder_.get(), to.c_str(), RENAME_NOREPLACE) !=
        0) {
      return fail_errno(errno, "rename storage area ", from, " to ", to);
    }
    return {};
  }

  Result<void> remove(const std::string& name) override {
    RETURN_IF_ERROR(check_name(name));
    auto removed = name_call<btrfs_ioctl_vol_args>(folder_, BTRFS_IOC_SNAP_DESTROY, name,
                                                   "delete storage area");
    if (removed || removed.error().errno_value == ENOENT) {
      return {};
    }
    if (removed.error().errno_value == ENOTEMPTY) {
      // It holds a subvolume that the sandbox made. Files go first, then the empty shells.
      RETURN_IF_ERROR(remove_subvolumes(folder_, name, 0));
      return name_call<btrfs_ioctl_vol_args>(folder_, BTRFS_IOC_SNAP_DESTROY, name,
                                             "delete storage area");
    }
    return removed;
  }

  Result<std::vector<std::string>> list() override { return base::sys::list_folder(root_); }

  Result<int64_t> used_bytes(const std::string& name) override {
    RETURN_IF_ERROR(check_name(name));
    ASSIGN_OR_RETURN(const auto area,
                     base::sys::open_at(folder_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    btrfs_ioctl_ino_lookup_args subvolume{};
    subvolume.objectid = BTRFS_FIRST_FREE_OBJECTID;
    if (::ioctl(area.get(), BTRFS_IOC_INO_LOOKUP, &subvolume) != 0) {
      return fail_errno(errno, "find the subvolume of ", name);
    }
    // sysfs has what the kernel counts now; the tree on disk is up to half a minute old.
    ASSIGN_OR_RETURN(const auto text,
                     base::sys::read_file(cat(qgroups_, "/0_", subvolume.treeid, "/referenced"),
                                          kSysfsBytesMax));
    const auto bytes =
        base::parse_number<int64_t>(std::string_view(text).substr(0, text.find('\n')));
    return bytes ? Result<int64_t>(*bytes)
                 : fail(ErrorCode::internal, "the usage of area ", name, " is not a number");
  }

  [[nodiscard]] std::string folder(const std::string& name) const override {
    return cat(root_, '/', name);
  }
  [[nodiscard]] std::string driver() const override { return driver_; }

  [[nodiscard]] int64_t capacity_mb() const override {
    struct statvfs status{};
    if (::fstatvfs(folder_.get(), &status) != 0) {
      return 0;
    }
    return static_cast<int64_t>(status.f_blocks * status.f_frsize) / kBytesPerMb;
  }

  Result<void> close() override {
    folder_.reset();
    return own_mount_ ? unmount_pool(root_) : Result<void>{};
  }

 private:
  static Result<void> check_name(const std::string& name) {
    return is_area_name(name) ? Result<void>{}
                              : fail(ErrorCode::internal, "\"", name, "\" cannot name an area");
  }

  static Result<void> limit(const Fd& area, int64_t storage_mb) {
    btrfs_ioctl_qgroup_limit_args arguments{};
    // qgroupid 0: that of the subvolume itself. All ones: no limit.
    arguments.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
    arguments.lim.max_rfer =
        storage_mb == 0 ? ~uint64_t{0} : static_cast<uint64_t>(storage_mb * kBytesPerMb);
    if (::ioctl(area.get(), BTRFS_IOC_QGROUP_LIMIT, &arguments) != 0) {
      return fail_errno(errno, "limit storage");
    }
    return {};
  }

  Result<void> fill(const std::string& name, int64_t storage_mb) {
    ASSIGN_OR_RETURN(const auto area,
                     base::sys::open_at(folder_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    for (const auto* part : kAreaParts) {
      if (::mkdirat(area.get(), part, 0755) != 0) {
        return fail_errno(errno, "make folder ", part);
      }
    }
    return storage_mb == 0 ? Result<void>{} : limit(area, storage_mb);
  }

  static Result<void> remove_subvolumes(const Fd& parent, const std::string& name, int depth);

  std::string driver_;
  std::string root_;
  Fd folder_;
  std::string qgroups_;  // in sysfs
  bool own_mount_;
};

// Depth first. Folders that lead nowhere are left to the deletion of the subvolume they are in.
Result<void> BtrfsStorage::remove_subvolumes(const Fd& parent, const std::string& name, int depth) {
  if (depth > kAreaDepthMax) {
    return fail_errno(ELOOP, "delete storage area");
  }
  ASSIGN_OR_RETURN(const auto folder,
                   base::sys::open_at(parent.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  ASSIGN_OR_RETURN(const auto entries, base::sys::list_folder(cat("/proc/self/fd/", folder.get())));
  for (const auto& entry : entries) {
    struct stat status{};
    if (::fstatat(folder.get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(status.st_mode)) {
      continue;
    }
    RETURN_IF_ERROR(remove_subvolumes(folder, entry, depth + 1));
    if (status.st_ino == kSubvolumeRootInode) {
      RETURN_IF_ERROR(name_call<btrfs_ioctl_vol_args>(folder, BTRFS_IOC_SNAP_DESTROY, entry,
                                                      "delete subvolume"));
    }
  }
  return {};
}

Result<std::unique_ptr<Storage>> open_at_root(std::string driver, const std::string& root,
                                              bool own_mount) {
  ASSIGN_OR_RETURN(auto folder, base::sys::open(root, O_RDONLY | O_DIRECTORY));
  struct statfs status{};
  if (::fstatfs(folder.get(), &status) != 0) {
    return fail_errno(errno, "stat ", root);
  }
  if (static_cast<uint64_t>(status.f_type) != BTRFS_SUPER_MAGIC) {
    return fail(ErrorCode::unavailable, root, " is not on btrfs");
  }
  RETURN_IF_ERROR(enable_quota(folder));
  return std::make_unique<BtrfsStorage>(std::move(driver), root, std::move(folder), own_mount);
}

}  // namespace

Result<std::unique_ptr<Storage>> open_btrfs_storage(const std::string& root) {
  RETURN_IF_ERROR(base::sys::make_folder(root, 0700));
  return open_at_root("btrfs", root, false);
}

Result<std::unique_ptr<Storage>> open_btrfs_loop_storage(const std::string& lib_folder,
                                                         int64_t pool_mb) {
  const auto pool = cat(lib_folder, "/pool");
  RETURN_IF_ERROR(mount_pool(cat(lib_folder, "/storage.img"), pool, pool_mb));
  auto storage = open_at_root("btrfs-loop", pool, true);
  if (!storage) {
    (void)unmount_pool(pool);
  }
  return storage;
}

}  // namespace node
