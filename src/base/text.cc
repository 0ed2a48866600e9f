#include "base/text.h"

#include <algorithm>
#include <array>

namespace base {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char lower_char(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_value(char c) {
  c = lower_char(c);
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

unsigned byte_at(std::string_view bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }

bool is_continuation(unsigned byte) { return (byte & 0xC0U) == 0x80U; }

// Length of the well-formed sequence at the front of `bytes` (RFC 3629, section 4), 0 if none.
size_t utf8_sequence(std::string_view bytes) {
  const unsigned first = byte_at(bytes, 0);
  if (first < 0x80) {
    return 1;
  }
  size_t length = 0;
  unsigned second_min = 0x80;
  unsigned second_max = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    second_min = first == 0xE0 ? 0xA0 : 0x80;
    second_max = first == 0xED ? 0x9F : 0xBF;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    second_min = first == 0xF0 ? 0x90 : 0x80;
    second_max = first == 0xF4 ? 0x8F : 0xBF;
  }
  if (length == 0 || bytes.size() < length) {
    return 0;
  }
  const unsigned second = byte_at(bytes, 1);
  if (second < second_min || second > second_max) {
    return 0;
  }
  for (size_t i = 2; i < length; ++i) {
    if (!is_continuation(byte_at(bytes, i))) {
      return 0;
    }
  }
  return length;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower_char(a[i]) != lower_char(b[i])) {
      return false;
    }
  }
  return true;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = lower_char(c);
  }
  return out;
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = utf8_sequence(bytes);
    if (length == 0) {
      return false;
    }
    bytes.remove_prefix(length);
  }
  return true;
}

std::string hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kHexDigits[byte >> 4U];
    out += kHexDigits[byte & 15U];
  }
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    unsigned group = byte_at(bytes, i) << 16U;
    group |= count > 1 ? byte_at(bytes, i + 1) << 8U : 0U;
    group |= count > 2 ? byte_at(bytes, i + 2) : 0U;
    out += kBase64Digits[group >> 18U];
    out += kBase64Digits[(group >> 12U) & 63U];
    out += count > 1 ? kBase64Digits[(group >> 6U) & 63U] : '=';
    out += count > 2 ? kBase64Digits[group & 63U] : '=';
  }
  return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    unsigned group = 0;
    size_t padding = 0;
    for (size_t k = 0; k < 4; ++k) {
      const char c = text[i + k];
      const size_t digit = kBase64Digits.find(c);
      const bool may_pad = i + 4 == text.size() && k >= 2;
      if (c == '=' && may_pad) {
        ++padding;
      } else if (digit == std::string_view::npos || padding > 0) {
        return std::nullopt;
      }
      group = (group << 6U) | (c == '=' ? 0U : static_cast<unsigned>(digit));
    }
    out += static_cast<char>(group >> 16U);
    if (padding < 2) {
      out += static_cast<char>((group >> 8U) & 255U);
    }
    if (padding < 1) {
      out += static_cast<char>(group & 255U);
    }
  }
  return out;
}

std::string base64url(std::string_view bytes) {
  std::string out = base64(bytes);
  out.resize(out.find_last_not_of('=') + 1);
  std::ranges::replace(out, '+', '-');
  std::ranges::replace(out, '/', '_');
  return out;
}

std::optional<std::string> decode_base64url(std::string_view text) {
  constexpr size_t kGroup = 4;
  std::string standard(text);
  std::ranges::replace(standard, '-', '+');
  std::ranges::replace(standard, '_', '/');
  standard.append((kGroup - standard.size() % kGroup) % kGroup, '=');
  auto bytes = decode_base64(standard);
  // Neither the other alphabet nor bits that nobody reads: it is what its bytes are written as.
  return bytes && base64url(*bytes) == text ? std::move(bytes) : std::nullopt;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kPlain = "-._~/";
  std::string out;
  for (const char c : text) {
    const bool alphanumeric =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (alphanumeric || kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4U];
      out += "0123456789ABCDEF"[byte & 15U];
    }
  }
  return out;
}

}  // namespace base
