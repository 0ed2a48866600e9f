// The Range header of a download: a range that is taken lies inside the file.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "agent/byte_range.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t file_size = 0;
  if (size < sizeof file_size) {
    return 0;
  }
  std::memcpy(&file_size, data, sizeof file_size);
  const std::string_view header(reinterpret_cast<const char*>(data) + sizeof file_size,
                                size - sizeof file_size);
  const auto range = agent::parse_range(header, file_size);
  if (range && *range) {
    const auto& found = **range;
    if (found.size == 0 || found.begin >= file_size || found.size > file_size - found.begin) {
      std::abort();
    }
  }
  return 0;
}
