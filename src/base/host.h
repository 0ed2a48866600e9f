// What names a host and what a port can be, for all who read one. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace base {

// Of the domain name system (RFC 1035 2.3.4).
inline constexpr size_t kHostNameBytesMax = 253;
inline constexpr size_t kHostLabelBytesMax = 63;
// Of whatever names a host: such a name, or an address with its port or zone.
inline constexpr size_t kHostBytesMax = 255;

// Within a label of a name in lower case. No host has an underscore, but many names have.
constexpr bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// A name in lower case, without a dot at its end.
inline bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() <= kHostNameBytesMax &&
         std::ranges::all_of(split(name, '.'), [](std::string_view label) {
           return !label.empty() && label.size() <= kHostLabelBytesMax &&
                  std::ranges::all_of(label, is_host_character);
         });
}

// 1 to 65,535.
inline std::optional<uint16_t> parse_port(std::string_view text) {
  const auto port = parse_number<uint16_t>(text);
  return port && *port != 0 ? port : std::nullopt;
}

}  // namespace base
