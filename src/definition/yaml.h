// YAML texts as the JSON values that the API takes: files that people write (definitions of teams).
// Only the codec; no file is opened here. Bounded in bytes, depth and number of values, aliases
// counted each time they are used, so that no text grows. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "wire/json.h"

namespace definition {

inline constexpr size_t kBytesMax = size_t{1024} * 1024;  // thousands of teams
inline constexpr size_t kDepthMax = wire::json::kDepthMax;
inline constexpr size_t kValuesMax = 100'000;

// One document. Plain texts are null, true, false, integers or numbers as YAML 1.2 has them (no
// "yes", no octal), all others and quoted ones are strings; a number above 64 bits is a string.
// Keys are strings. malformed ("line 3: ...") for what is no YAML or not UTF-8, beyond a limit,
// more than one document, a key twice, a tag that is not in `tags`, an alias of itself. A value
// with one of those is {tag: value}.
base::Result<wire::json::Value> parse_yaml(std::string_view text,
                                           std::span<const std::string_view> tags = {});

}  // namespace definition
