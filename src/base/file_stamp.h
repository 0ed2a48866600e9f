// Whether a file is still the one that was looked at: replaced and rewritten ones differ.
#pragma once

#include <cstdint>
#include <string>

namespace base {

struct FileStamp {
  int64_t changed_ns = 0;
  uint64_t inode = 0;
  int64_t size = -1;
  bool operator==(const FileStamp&) const = default;
};

// That of nothing where there is no such file.
FileStamp file_stamp(const std::string& path);

}  // namespace base
