#include "node/storage_quota.h"

#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/sys.h"

namespace node {

using base::cat;
using base::ErrorCode;
using base::fail;
using base::fail_errno;
using base::Fd;
using base::Result;

namespace {

constexpr int64_t kBytesPerMb = 1 << 20;
// Both units of quotactl: basic blocks of 512 bytes for xfs, of 1,024 for the others.
constexpr uint64_t kXfsBlocksPerMb = kBytesPerMb / 512;
constexpr uint64_t kQuotaBlocksPerMb = kBytesPerMb / 1024;
// Ours start high, where no administrator's /etc/projid has its own.
constexpr uint32_t kProjectFirst = 0x53470000;
constexpr uint32_t kProjectLast = 0x5347ffff;
// What is being deleted: hidden from list(), finished at the next start.
constexpr const char* kTrashPrefix = ".trash-";

int quota_call(int folder, int command, uint32_t project, void* argument) {
  return static_cast<int>(::syscall(
      SYS_quotactl_fd, folder, QCMD(static_cast<unsigned>(command), PRJQUOTA), project, argument));
}

class ProjectQuotaStorage final : public Storage {
 public:
  ProjectQuotaStorage(std::string root, Fd folder, bool xfs)
      : root_(std::move(root)), folder_(std::move(folder)), xfs_(xfs) {}

  // Learns the projects in use, finishes interrupted deletions, and proves that limits work.
  Result<void> start() {
    RETURN_IF_ERROR(limit_project(kProjectLast, 1));
    RETURN_IF_ERROR(limit_project(kProjectLast, 0));
    ASSIGN_OR_RETURN(const auto entries, base::sys::list_folder(root_));
    for (const auto& entry : entries) {
      if (entry.starts_with(kTrashPrefix)) {
        RETURN_IF_ERROR(base::sys::remove_tree(cat(root_, '/', entry)));
      } else if (const auto project = project_of(entry)) {
        used_.insert(*project);
      }
    }
    return {};
  }

  Result<std::string> make(const std::string& name, int64_t storage_mb) override {
    if (!is_area_name(name)) {
      return fail(ErrorCode::internal, "\"", name, "\" cannot name an area");
    }
    if (::mkdirat(folder_.get(), name.c_str(), 0700) != 0) {
      return fail_errno(errno, "make storage area ", name);
    }
    auto filled = fill(name, storage_mb);
    if (!filled) {
      (void)remove(name);
      return std::unexpected(std::move(filled).error());
    }
    return folder(name);
  }

  Result<void> set_limit(const std::string& name, int64_t storage_mb) override {
    ASSIGN_OR_RETURN(const auto project, project_of(name));
    return limit_project(project, storage_mb);
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (!is_area_name(to) || ::renameat2(folder_.get(), from.c_str(), folder_.get(), to.c_str(),
                                         RENAME_NOREPLACE) != 0) {
      return fail_errno(errno, "rename storage area ", from, " to ", to);
    }
    return {};
  }

  Result<void> remove(const std::string& name) override {
    const auto project = project_of(name);
    const auto trash = cat(kTrashPrefix, name);
    if (::renameat(folder_.get(), name.c_str(), folder_.get(), trash.c_str()) != 0 &&
        errno != ENOENT) {
      return fail_errno(errno, "delete storage area ", name);
    }
    RETURN_IF_ERROR(base::sys::remove_tree(cat(root_, '/', trash)));
    if (project) {
      RETURN_IF_ERROR(limit_project(*project, 0));
      used_.erase(*project);
    }
    return {};
  }

  Result<std::vector<std::string>> list() override {
    ASSIGN_OR_RETURN(auto names, base::sys::list_folder(root_));
    std::erase_if(names, [](const std::string& name) { return !is_area_name(name); });
    return names;
  }

  Result<int64_t> used_bytes(const std::string& name) override {
    ASSIGN_OR_RETURN(const auto project, project_of(name));
    if (xfs_) {
      fs_disk_quota quota{};
      if (quota_call(folder_.get(), Q_XGETQUOTA, project, &quota) != 0) {
        return fail_errno(errno, "read the quota of project ", project);
      }
      return static_cast<int64_t>(quota.d_bcount) * (kBytesPerMb / int64_t{kXfsBlocksPerMb});
    }
    if_dqblk quota{};
    if (quota_call(folder_.get(), Q_GETQUOTA, project, &quota) != 0) {
      return fail_errno(errno, "read the quota of project ", project);
    }
    return static_cast<int64_t>(quota.dqb_curspace);
  }

  [[nodiscard]] std::string folder(const std::string& name) const override {
    return cat(root_, '/', name);
  }
  [[nodiscard]] std::string driver() const override { return "project-quota"; }
  [[nodiscard]] int64_t capacity_mb() const override {
    struct statvfs status{};
    return ::fstatvfs(folder_.get(), &status) != 0
               ? 0
               : static_cast<int64_t>(status.f_blocks * status.f_frsize) / kBytesPerMb;
  }
  Result<void> close() override { return {}; }

 private:
  Result<void> limit_project(uint32_t project, int64_t storage_mb) {
    const auto size = static_cast<uint64_t>(storage_mb);
    int done = -1;
    if (xfs_) {
      fs_disk_quota limit{};
      limit.d_version = FS_DQUOT_VERSION;
      limit.d_flags = FS_PROJ_QUOTA;
      limit.d_fieldmask = FS_DQ_BHARD;
      limit.d_id = project;
      limit.d_blk_hardlimit = size * kXfsBlocksPerMb;
      done = quota_call(folder_.get(), Q_XSETQLIM, project, &limit);
    } else {
      if_dqblk limit{};
      limit.dqb_valid = QIF_BLIMITS;
      limit.dqb_bhardlimit = size * kQuotaBlocksPerMb;
      done = quota_call(folder_.get(), Q_SETQUOTA, project, &limit);
    }
    return done == 0 ? Result<void>{} : fail_errno(errno, "set the quota of project ", project);
  }

  Result<uint32_t> project_of(const std::string& name) {
    ASSIGN_OR_RETURN(const auto area,
                     base::sys::open_at(folder_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    fsxattr attributes{};
    if (::ioctl(area.get(), FS_IOC_FSGETXATTR, &attributes) != 0) {
      return fail_errno(errno, "read the project of ", name);
    }
    if (attributes.fsx_projid < kProjectFirst || attributes.fsx_projid > kProjectLast) {
      return fail(ErrorCode::internal, "area ", name, " has no project of ours");
    }
    return attributes.fsx_projid;
  }

  // The limit comes before anything is in it; the parts inherit the project.
  Result<void> fill(const std::string& name, int64_t storage_mb) {
    ASSIGN_OR_RETURN(const auto area,
                     base::sys::open_at(folder_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    ASSIGN_OR_RETURN(const auto project, choose_project());
    fsxattr attributes{};
    if (::ioctl(area.get(), FS_IOC_FSGETXATTR, &attributes) != 0) {
      return fail_errno(errno, "read the attributes of ", name);
    }
    attributes.fsx_projid = project;
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (::ioctl(area.get(), FS_IOC_FSSETXATTR, &attributes) != 0) {
      return fail_errno(errno, "set the project of ", name);
    }
    RETURN_IF_ERROR(limit_project(project, storage_mb));
    used_.insert(project);
    for (const auto* part : kAreaParts) {
      if (::mkdirat(area.get(), part, 0755) != 0) {
        return fail_errno(errno, "make folder ", part);
      }
    }
    return {};
  }

  Result<uint32_t> choose_project() {
    for (uint32_t tried = 0; tried <= kProjectLast - kProjectFirst; ++tried) {
      next_ = next_ >= kProjectLast - 1 ? kProjectFirst : next_ + 1;
      if (!used_.contains(next_)) {
        return next_;
      }
    }
    return fail(ErrorCode::overloaded, "no free project number left");
  }

  std::string root_;
  Fd folder_;
  bool xfs_;
  std::set<uint32_t> used_;
  uint32_t next_ = kProjectFirst;
};

}  // namespace

Result<std::unique_ptr<Storage>> open_project_quota_storage(const std::string& root) {
  RETURN_IF_ERROR(base::sys::make_folder(root, 0700));
  ASSIGN_OR_RETURN(auto folder, base::sys::open(root, O_RDONLY | O_DIRECTORY));
  struct statfs status{};
  if (::fstatfs(folder.get(), &status) != 0) {
    return fail_errno(errno, "stat ", root);
  }
  const auto kind = static_cast<uint64_t>(status.f_type);
  if (kind != XFS_SUPER_MAGIC && kind != EXT4_SUPER_MAGIC) {
    return fail(ErrorCode::unavailable, root, " is on neither xfs nor ext4");
  }
  auto storage =
      std::make_unique<ProjectQuotaStorage>(root, std::move(folder), kind == XFS_SUPER_MAGIC);
  auto started = storage->start();
  if (!started) {
    return fail(ErrorCode::unavailable, "project quotas are not enforced on ", root, ": ",
                started.error().message);
  }
  return storage;
}

}  // namespace node
