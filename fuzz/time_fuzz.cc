// A time of a filter, as a client writes it: what is read is written and read again as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/clock.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto time = base::parse_rfc3339({reinterpret_cast<const char*>(data), size});
  if (!time) {
    return 0;
  }
  // An offset can lead out of the years that are written with four digits.
  constexpr int64_t kEndMs = 253'402'300'800'000;
  if (base::to_ms(*time) >= 0 && base::to_ms(*time) < kEndMs &&
      base::parse_rfc3339(base::rfc3339(*time)) != time) {
    std::abort();
  }
  return 0;
}
