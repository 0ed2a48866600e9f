// The Range header of a download. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace agent {

using base::Result;

struct ByteRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};

// The one range asked for of `size` bytes; nullopt for what is to be answered whole (several
// ranges, another unit, a broken header: RFC 9110 14.2); range_not_satisfiable past the end.
Result<std::optional<ByteRange>> parse_range(std::string_view header, uint64_t size);

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(int64_t seconds);

}  // namespace agent
