// Where sandboxes write: one area each, with a hard limit of its own.
// Owned by the node, one per node; called on its only thread, every call is a few system calls
// (only `open` may run mkfs.btrfs, once in a pool's life). Areas survive the node. A write past the
// limit fails inside the sandbox with EDQUOT or ENOSPC. Errors are code io; open() also
// `unavailable`, `disk_full` and, for a bad option, `invalid_field`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace node {

struct StorageOptions {
  std::string lib_folder;
  int64_t pool_mb = 0;  // of the loop file; 0: default_pool_mb of the free disk
  std::string
      driver;  // "": the best that works; or "btrfs", "btrfs-loop", "project-quota", "tmpfs"
};

class Storage {
 public:
  // Takes the pool into use, made at the first start. Drivers that do not work here are passed
  // over, and why stands in notes(); of a named driver it is the error.
  static base::Result<std::unique_ptr<Storage>> open(const StorageOptions& options);

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage() = default;  // leaves pool and areas as they are

  // A fresh area: returns its folder, which holds upper/, work/ and spool/, all owned by root.
  // storage_mb 0: no limit yet (areas are made ahead of their sandbox).
  virtual base::Result<std::string> make(const std::string& name, int64_t storage_mb) = 0;
  virtual base::Result<void> set_limit(const std::string& name, int64_t storage_mb) = 0;
  // Open files and mounts of the area stay valid.
  virtual base::Result<void> rename(const std::string& from, const std::string& to) = 0;
  // Absent is fine. Space comes back in the background.
  virtual base::Result<void> remove(const std::string& name) = 0;
  virtual base::Result<std::vector<std::string>> list() = 0;
  // Bytes that count against the area's limit.
  virtual base::Result<int64_t> used_bytes(const std::string& name) = 0;
  // The folder of an area, whether it exists or not.
  [[nodiscard]] virtual std::string folder(const std::string& name) const = 0;
  [[nodiscard]] virtual std::string driver() const = 0;
  [[nodiscard]] virtual int64_t capacity_mb() const = 0;
  // Unmounts the pool (its areas stay in it); fails while one is in use. For `down` and tests.
  virtual base::Result<void> close() = 0;

  // One line for each driver that was passed over.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<std::string> notes_;
};

// What every area holds: the overlay's upper and work folders, and command output.
inline constexpr std::array<const char*, 3> kAreaParts = {"upper", "work", "spool"};

// The size of a new pool: a quarter of the free disk, at least 4 GiB, at most 64.
int64_t default_pool_mb(int64_t free_mb);
// Whether the text can name an area: 1 to 64 of [a-z0-9-_.], not starting with a dot.
bool is_area_name(std::string_view name);

}  // namespace node
