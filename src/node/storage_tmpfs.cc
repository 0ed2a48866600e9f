#include "node/storage_tmpfs.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/sys.h"

namespace node {

using base::cat;
using base::ErrorCode;
using base::fail;
using base::fail_errno;
using base::Result;

namespace {

constexpr int64_t kBytesPerMb = 1 << 20;
// A mount point cannot be renamed, the folder around it can.
constexpr const char* kMountName = "area";

class TmpfsStorage final : public Storage {
 public:
  explicit TmpfsStorage(std::string root) : root_(std::move(root)) {}

  Result<std::string> make(const std::string& name, int64_t storage_mb) override {
    if (!is_area_name(name)) {
      return fail(ErrorCode::internal, "\"", name, "\" cannot name an area");
    }
    const auto outer = cat(root_, '/', name);
    if (::mkdir(outer.c_str(), 0700) != 0) {
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
    if (::mount(nullptr, folder(name).c_str(), nullptr, MS_REMOUNT | MS_NOSUID | MS_NODEV,
                options(storage_mb).c_str()) != 0) {
      return fail_errno(errno, "limit storage area ", name);
    }
    return {};
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (!is_area_name(to) || ::renameat2(AT_FDCWD, cat(root_, '/', from).c_str(), AT_FDCWD,
                                         cat(root_, '/', to).c_str(), RENAME_NOREPLACE) != 0) {
      return fail_errno(errno, "rename storage area ", from, " to ", to);
    }
    return {};
  }

  Result<void> remove(const std::string& name) override {
    // Detached: an open file keeps the memory until it is closed, as with any deleted file.
    const auto inner = folder(name);
    if (::umount2(inner.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL &&
        errno != ENOENT) {
      return fail_errno(errno, "unmount storage area ", name);
    }
    for (const auto& path : {inner, cat(root_, '/', name)}) {
      if (::rmdir(path.c_str()) != 0 && errno != ENOENT) {
        return fail_errno(errno, "delete storage area ", name);
      }
    }
    return {};
  }

  Result<std::vector<std::string>> list() override { return base::sys::list_folder(root_); }

  Result<int64_t> used_bytes(const std::string& name) override {
    struct statvfs status{};
    if (::statvfs(folder(name).c_str(), &status) != 0) {
      return fail_errno(errno, "stat ", folder(name));
    }
    return static_cast<int64_t>((status.f_blocks - status.f_bfree) * status.f_frsize);
  }

  [[nodiscard]] std::string folder(const std::string& name) const override {
    return cat(root_, '/', name, '/', kMountName);
  }
  [[nodiscard]] std::string driver() const override { return "tmpfs"; }
  [[nodiscard]] int64_t capacity_mb() const override {
    struct sysinfo memory{};
    ::sysinfo(&memory);
    return static_cast<int64_t>(memory.totalram * memory.mem_unit) / kBytesPerMb / 2;
  }
  Result<void> close() override { return {}; }

 private:
  // size=0 would be no limit at all: an area without a limit gets the kernel's default of half
  // the memory.
  static std::string options(int64_t storage_mb) {
    return storage_mb == 0 ? "size=50%,mode=0700" : cat("size=", storage_mb, "m,mode=0700");
  }

  Result<void> fill(const std::string& name, int64_t storage_mb) {
    const auto inner = folder(name);
    if (::mkdir(inner.c_str(), 0700) != 0) {
      return fail_errno(errno, "make storage area ", name);
    }
    if (::mount("tmpfs", inner.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOATIME,
                options(storage_mb).c_str()) != 0) {
      return fail_errno(errno, "mount storage area ", name);
    }
    for (const auto* part : kAreaParts) {
      RETURN_IF_ERROR(base::sys::make_folder(cat(inner, '/', part), 0755));
    }
    return {};
  }

  std::string root_;
};

}  // namespace

Result<std::unique_ptr<Storage>> open_tmpfs_storage(const std::string& root) {
  RETURN_IF_ERROR(base::sys::make_folder(root, 0700));
  return std::make_unique<TmpfsStorage>(root);
}

}  // namespace node
