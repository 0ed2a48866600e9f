// Content codings of bodies: gzip and zstd, both ways. Here what a client accepts and whole bodies
// in memory, bounded by the caller; piece by piece it is server/content_stream. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace server {

enum class Coding { identity, gzip, zstd };

// As Content-Encoding names it.
std::string_view coding_name(Coding coding);
// What an answer gets by the Accept-Encoding header's value (nullptr: there is none): the coding
// with the highest q; of equal ones zstd before gzip before none. `*` stands for gzip, which every
// client that says so can read.
Coding choose_coding(const std::string* accept_encoding);
bool accepts_gzip(const std::string* accept_encoding);

// `coding` as in Content-Encoding ("", identity, gzip, zstd). More than bytes_max inflated bytes is
// body_too_large, a broken stream malformed, another coding not_supported.
base::Result<std::string> decode_content(std::string_view coding, std::string body,
                                         size_t bytes_max);
std::string encode_content(Coding coding, std::string_view bytes);

}  // namespace server
