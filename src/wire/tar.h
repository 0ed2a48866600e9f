// One member of a tar archive as a value: what tar_reader.h gives and tar_writer.h takes. Names,
// link targets and attributes are bytes as the archive has them, not checked for anything but NUL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace wire::tar {

inline constexpr size_t kBlockBytes = 512;
// Two empty blocks end an archive.
inline constexpr size_t kEndBytes = 2 * kBlockBytes;
// What fills the last block of `size` bytes of data.
constexpr size_t padding(uint64_t size) {
  return static_cast<size_t>((kBlockBytes - size % kBlockBytes) % kBlockBytes);
}

enum class EntryType { file, hardlink, symlink, character_device, block_device, folder, fifo };

struct Time {
  int64_t seconds = 0;      // rounded down
  int32_t nanoseconds = 0;  // 0 to 999,999,999
  bool operator==(const Time&) const = default;
};

// Where bytes stand in a sparse file; all else is zeros.
struct Part {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const Part&) const = default;
};

struct Entry {
  std::string path;
  EntryType type = EntryType::file;
  std::string target;  // of links
  uint32_t mode = 0;   // permission bits with setuid, setgid and sticky
  int64_t uid = 0;
  int64_t gid = 0;
  uint64_t size = 0;  // of the file as it is read, holes included
  Time modified;
  std::vector<std::pair<std::string, std::string>> attributes;  // "user.x" and its value
  bool is_sparse = false;
  std::vector<Part> parts;  // of a sparse file: ascending, apart from each other, within `size`
};

}  // namespace wire::tar
