// The records of PAX extended headers: what they say of a member, or of all that follow. Pure;
// holds at most what its input does and kPartsMax parts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/tar.h"

namespace wire::tar {

using base::Result;

// A sparse file of 16 GiB whose every second 64 KiB is a hole; 4 MiB of memory.
inline constexpr size_t kPartsMax = size_t{256} * 1024;

// Far above what a kernel takes as a path.
inline constexpr size_t kLongNameBytesMax = size_t{64} * 1024;

// What extended headers say of the next member, or of all that follow.
struct Overrides {
  std::optional<std::string> path;
  std::optional<std::string> target;
  std::optional<uint64_t> size;
  std::optional<int64_t> uid;
  std::optional<int64_t> gid;
  std::optional<Time> modified;
  std::map<std::string, std::string> attributes;
  std::optional<std::string> sparse_path;
  std::optional<uint64_t> sparse_size;
  std::optional<uint64_t> sparse_offset;  // awaits its length
  std::vector<Part> parts;
  bool has_parts = false;    // formats 0.0 and 0.1
  bool map_in_data = false;  // format 1.0
};

// Puts what the records say over what `out` says; an empty value takes it back. The error is
// archive_invalid and names no member.
Result<void> read_records(std::string_view records, Overrides& out);

}  // namespace wire::tar
