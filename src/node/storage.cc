#include "node/storage.h"

#include <errno.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "base/sys.h"
#include "node/storage_btrfs.h"
#include "node/storage_quota.h"
#include "node/storage_tmpfs.h"

namespace node {

using base::cat;
using base::Result;

namespace {

constexpr int64_t kBytesPerMb = 1 << 20;
constexpr int64_t kPoolShareOfFreeDisk = 4;
constexpr int64_t kPoolMbMin = int64_t{4} * 1024;
constexpr int64_t kPoolMbMax = int64_t{64} * 1024;
constexpr size_t kAreaNameMax = 64;

// Best first.
constexpr std::string_view kDrivers[] = {"btrfs", "btrfs-loop", "project-quota", "tmpfs"};

Result<std::unique_ptr<Storage>> open_driver(std::string_view driver, const StorageOptions& options,
                                             int64_t pool_mb) {
  const auto areas = cat(options.lib_folder, "/areas");
  if (driver == "btrfs") {
    return open_btrfs_storage(areas);
  }
  if (driver == "btrfs-loop") {
    return open_btrfs_loop_storage(options.lib_folder, pool_mb);
  }
  if (driver == "project-quota") {
    return open_project_quota_storage(areas);
  }
  if (driver == "tmpfs") {
    return open_tmpfs_storage(cat(options.lib_folder, "/memory-areas"));
  }
  return base::fail_field("storage_driver", "there is no storage driver \"", driver, "\"");
}

}  // namespace

int64_t default_pool_mb(int64_t free_mb) {
  return std::clamp(free_mb / kPoolShareOfFreeDisk, kPoolMbMin, kPoolMbMax);
}

bool is_area_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kAreaNameMax && name.front() != '.' &&
         std::ranges::all_of(name, fits);
}

Result<std::unique_ptr<Storage>> Storage::open(const StorageOptions& options) {
  RETURN_IF_ERROR(base::sys::make_folders(options.lib_folder, 0700));
  auto pool_mb = options.pool_mb;
  if (pool_mb == 0) {
    struct statvfs status{};
    if (::statvfs(options.lib_folder.c_str(), &status) != 0) {
      return base::fail_errno(errno, "stat ", options.lib_folder);
    }
    pool_mb =
        default_pool_mb(static_cast<int64_t>(status.f_bavail * status.f_frsize) / kBytesPerMb);
  }
  if (!options.driver.empty()) {
    return base::with_context(open_driver(options.driver, options, pool_mb),
                              cat("storage driver ", options.driver));
  }
  std::vector<std::string> notes;
  for (const auto driver : kDrivers) {
    auto storage = open_driver(driver, options, pool_mb);
    if (storage) {
      (*storage)->notes_ = std::move(notes);
      return storage;
    }
    notes.push_back(cat(driver, ": ", storage.error().message));
  }
  return base::fail(base::ErrorCode::unavailable,
                    "no storage driver works here; the last: ", notes.back());
}

}  // namespace node
