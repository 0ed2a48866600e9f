// How the characters of ASCII stand inside of a JSON string (RFC 8259 7): the one table of all who
// write JSON byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace base {

struct JsonEscape {
  std::array<char, 8> text{};  // of which `size` count; a writer with room may copy all of them
  uint8_t size = 0;
};

// The longest form of one byte: \u0000.
inline constexpr size_t kJsonEscapeBytesMax = 6;

constexpr std::array<JsonEscape, 128> make_json_escapes() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr unsigned char kFirstPlain = 0x20;
  std::array<JsonEscape, 128> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    const auto c = static_cast<char>(i);
    const char letter = c == '"'    ? '"'
                        : c == '\\' ? '\\'
                        : c == '\n' ? 'n'
                        : c == '\r' ? 'r'
                        : c == '\t' ? 't'
                                    : '\0';
    if (letter != '\0') {
      table.at(i) = {.text = {'\\', letter}, .size = 2};
    } else if (i < kFirstPlain) {
      table.at(i) = {.text = {'\\', 'u', '0', '0', kDigits[i >> 4U], kDigits[i & 15U]},
                     .size = kJsonEscapeBytesMax};
    } else {
      table.at(i) = {.text = {c}, .size = 1};
    }
  }
  return table;
}
inline constexpr std::array<JsonEscape, 128> kJsonEscapes = make_json_escapes();

}  // namespace base
