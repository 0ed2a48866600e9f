// Content codings of bodies: gzip and zstd in, gzip out. Whole bodies in memory, bounded by the
// caller. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace server {

// `coding` as in Content-Encoding ("", identity, gzip, zstd). More than bytes_max inflated bytes is
// body_too_large, a broken stream malformed, another coding not_supported.
base::Result<std::string> decode_content(std::string_view coding, std::string body,
                                         size_t bytes_max);
std::string gzip(std::string_view bytes);
// Whether an Accept-Encoding header's value allows gzip.
bool accepts_gzip(std::string_view accept_encoding);

}  // namespace server
