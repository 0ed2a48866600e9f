#include "base/file_stamp.h"

#include <sys/stat.h>

namespace base {

FileStamp file_stamp(const std::string& path) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  struct stat state{};
  if (::stat(path.c_str(), &state) != 0) {
    return {};
  }
  return {.changed_ns = (state.st_mtim.tv_sec * kNsPerSecond) + state.st_mtim.tv_nsec,
          .inode = state.st_ino,
          .size = state.st_size};
}

}  // namespace base
