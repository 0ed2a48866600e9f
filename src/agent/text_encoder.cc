#include "agent/text_encoder.h"

#include <algorithm>

namespace agent {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7F && c != '"' && c != '\\';
}

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\x7F':
      out += c;
      return;
    default:
      out += "\\u00";
      out += kDigits[static_cast<unsigned char>(c) >> 4U];
      out += kDigits[static_cast<unsigned char>(c) & 0x0FU];
  }
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
  size_t begin = 0;  // of what is copied as it is
  size_t at = 0;
  const auto flush = [&] { out.append(bytes, begin, at - begin); };
  while (at < bytes.size()) {
    if (is_plain(bytes[at])) {
      ++at;
      continue;
    }
    if (static_cast<unsigned char>(bytes[at]) < 0x80) {
      flush();
      append_escaped(out, bytes[at]);
      begin = ++at;
      continue;
    }
    const Sequence sequence = look_at(bytes.substr(at));
    if (sequence.kind == Sequence::Kind::whole) {
      at += sequence.size;
      continue;
    }
    flush();
    if (sequence.kind == Sequence::Kind::unfinished) {
      pending_ = bytes.substr(at);
      return;
    }
    out += kReplacement;
    at += sequence.size;
    begin = at;
  }
  flush();
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
