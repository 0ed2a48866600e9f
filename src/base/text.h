// Small text helpers without iostream, locale or format strings (the agent must stay small).
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace base {

inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, const char* part) { out += part; }
inline void append(std::string& out, char part) { out += part; }
template <std::integral T>
  requires(!std::same_as<T, char> && !std::same_as<T, bool>)
void append(std::string& out, T number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, end.ptr);
}

// cat("sandbox ", id, " has ", 3, " containers"): strings, characters and integers.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

// The whole text as a number of type T in base 10 (or `radix`): no blanks, no sign for unsigned
// types, no overflow; otherwise nullopt.
template <std::integral T>
std::optional<T> parse_number(std::string_view text, int radix = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, radix);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

// Parts between separators; "" gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
// Without blanks and tabs at both ends.
std::string_view trim(std::string_view text);
// ASCII only.
bool equals_ignoring_case(std::string_view a, std::string_view b);
std::string lower(std::string_view text);
// Whether the bytes are UTF-8 as RFC 3629 has it (no surrogates, no overlong forms).
bool is_utf8(std::string_view bytes);
std::string hex(std::string_view bytes);
std::string base64(std::string_view bytes);
// Standard alphabet with padding; nullopt for anything else.
std::optional<std::string> decode_base64(std::string_view text);
// The alphabet for addresses and tokens, without padding (RFC 4648 5, as RFC 7515 has it). Bytes
// have one form only: nullopt for any other, as for anything else.
std::string base64url(std::string_view bytes);
std::optional<std::string> decode_base64url(std::string_view text);
// %XX decoding of a path or query value ('+' stays a plus); nullopt for a broken escape.
std::optional<std::string> percent_decode(std::string_view text);
// Encodes all but unreserved characters (RFC 3986 2.3) and '/'.
std::string percent_encode(std::string_view text);

}  // namespace base
