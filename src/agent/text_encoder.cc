#include "agent/text_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/json_escape.h"

namespace agent {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

constexpr size_t kWordBytes = sizeof(uint64_t);

// The highest bit of each byte that cannot be copied as it is. (Borrows make bytes above such a one
// doubtful, so only the lowest mark is to be used.)
uint64_t special_bytes(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighs = 0x8080808080808080;
  const auto is_zero = [](uint64_t x) { return (x - kOnes) & ~x & kHighs; };
  const uint64_t control = (word - kOnes * 0x20) & ~word & kHighs;
  return (word & kHighs) | control | is_zero(word ^ (kOnes * '"')) | is_zero(word ^ (kOnes * '\\'));
}

// A sequence that starts with a byte above 0x7F (Unicode 15, table 3-7).
struct Sequence {
  size_t size = 0;  // bytes that belong together: the character, or the invalid part
  enum class Kind { whole, invalid, unfinished } kind = Kind::invalid;
};

Sequence look_at(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    low = lead == 0xE0 ? 0xA0 : low;
    high = lead == 0xED ? 0x9F : high;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    low = lead == 0xF0 ? 0x90 : low;
    high = lead == 0xF4 ? 0x8F : high;
  } else {
    return {.size = 1, .kind = Sequence::Kind::invalid};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) {
      return {.size = i, .kind = Sequence::Kind::unfinished};
    }
    if (at(i) < low || at(i) > high) {
      return {.size = i, .kind = Sequence::Kind::invalid};
    }
    low = 0x80;
    high = 0xBF;
  }
  return {.size = length, .kind = Sequence::Kind::whole};
}

}  // namespace

void TextEncoder::add(std::string& out, std::string_view bytes) {
  if (encoding_ == OutputEncoding::base64) {
    add_base64(out, bytes);
    return;
  }
  // At most three bytes are taken one by one to end a character that was cut.
  while (!pending_.empty() && !bytes.empty()) {
    pending_ += bytes.front();
    bytes.remove_prefix(1);
    const std::string joined = std::exchange(pending_, {});
    add_utf8(out, joined);
  }
  add_utf8(out, bytes);
}

void TextEncoder::add_utf8(std::string& out, std::string_view bytes) {
  const size_t old_size = out.size();
  out.resize_and_overwrite(
      old_size + bytes.size() * base::kJsonEscapeBytesMax + kWordBytes,
      [&](char* begin, size_t /*room*/) { return write_utf8(begin + old_size, bytes) - begin; });
}

// `to` has room for each byte's longest form and one word. Returns the end of what was written.
char* TextEncoder::write_utf8(char* to, std::string_view bytes) {
  const char* from = bytes.data();
  const char* const end = from + bytes.size();
  while (from < end) {
    if (static_cast<size_t>(end - from) >= kWordBytes) {
      uint64_t word = 0;
      std::memcpy(&word, from, kWordBytes);
      // All of the word is written; what is behind a special byte is written over.
      std::memcpy(to, &word, kWordBytes);
      const uint64_t special = special_bytes(word);
      const size_t plain =
          special == 0 ? kWordBytes : static_cast<size_t>(std::countr_zero(special)) / 8;
      to += plain;
      from += plain;
      if (special == 0) {
        continue;
      }
    }
    const auto byte = static_cast<unsigned char>(*from);
    if (byte < base::kJsonEscapes.size()) {
      const base::JsonEscape& escape = base::kJsonEscapes[byte];
      std::memcpy(to, escape.text.data(), escape.text.size());
      to += escape.size;
      ++from;
      continue;
    }
    const std::string_view rest(from, static_cast<size_t>(end - from));
    const Sequence sequence = look_at(rest);
    if (sequence.kind == Sequence::Kind::unfinished) {
      pending_ = rest;
      return to;
    }
    const std::string_view text =
        sequence.kind == Sequence::Kind::whole ? rest.substr(0, sequence.size) : kReplacement;
    std::ranges::copy(text, to);
    to += text.size();
    from += sequence.size;
  }
  return to;
}

void TextEncoder::add_base64(std::string& out, std::string_view bytes) {
  constexpr size_t kGroup = 3;
  if (!pending_.empty()) {
    const size_t wanted = std::min(bytes.size(), kGroup - pending_.size());
    pending_ += bytes.substr(0, wanted);
    bytes.remove_prefix(wanted);
    if (pending_.size() < kGroup) {
      return;
    }
    out += base::base64(std::exchange(pending_, {}));
  }
  const size_t whole = bytes.size() - bytes.size() % kGroup;
  out += base::base64(bytes.substr(0, whole));
  pending_ = bytes.substr(whole);
}

void TextEncoder::finish(std::string& out) {
  if (!pending_.empty()) {
    out += encoding_ == OutputEncoding::base64 ? base::base64(pending_) : std::string(kReplacement);
    pending_.clear();
  }
}

}  // namespace agent
