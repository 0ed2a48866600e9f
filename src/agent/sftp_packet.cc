#include "agent/sftp_packet.h"

namespace agent::sftp {
namespace {

constexpr unsigned kByteBits = 8;

}  // namespace

std::string_view PacketReader::take(size_t count) {
  if (!ok_ || count > rest_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

uint64_t PacketReader::number(size_t bytes) {
  uint64_t value = 0;
  for (const char byte : take(bytes)) {
    value = value << kByteBits | static_cast<unsigned char>(byte);
  }
  return value;
}

uint8_t PacketReader::number8() { return static_cast<uint8_t>(number(sizeof(uint8_t))); }
uint32_t PacketReader::number32() { return static_cast<uint32_t>(number(sizeof(uint32_t))); }
uint64_t PacketReader::number64() { return number(sizeof(uint64_t)); }

std::string_view PacketReader::text() { return take(number32()); }

std::string PacketReader::path() {
  const std::string_view bytes = text();
  ok_ = ok_ && bytes.find('\0') == std::string_view::npos;
  return std::string(bytes);
}

Attributes PacketReader::attributes() {
  Attributes value;
  value.flags = number32();
  if (value.has(Attributes::kSize)) {
    value.size = number64();
  }
  if (value.has(Attributes::kOwner)) {
    value.uid = number32();
    value.gid = number32();
  }
  if (value.has(Attributes::kMode)) {
    value.mode = number32();
  }
  if (value.has(Attributes::kTimes)) {
    value.accessed_at = number32();
    value.modified_at = number32();
  }
  if (value.has(Attributes::kExtended)) {
    // Pairs that nobody here knows; each takes bytes of the packet, so the loop ends with it.
    for (uint32_t left = number32(); left > 0 && ok_; --left) {
      text();
      text();
    }
  }
  return value;
}

void PacketWriter::number(uint64_t value, size_t bytes) {
  for (size_t i = bytes; i > 0; --i) {
    out_ += static_cast<char>(value >> (kByteBits * (i - 1)));
  }
}

PacketWriter& PacketWriter::begin(Type type) {
  begin_ = out_.size();
  number32(0);
  return number8(static_cast<uint8_t>(type));
}

PacketWriter& PacketWriter::number8(uint8_t value) {
  number(value, sizeof value);
  return *this;
}

PacketWriter& PacketWriter::number32(uint32_t value) {
  number(value, sizeof value);
  return *this;
}

PacketWriter& PacketWriter::number64(uint64_t value) {
  number(value, sizeof value);
  return *this;
}

PacketWriter& PacketWriter::text(std::string_view value) {
  number32(static_cast<uint32_t>(value.size()));
  out_ += value;
  return *this;
}

PacketWriter& PacketWriter::attributes(const Attributes& value) {
  number32(value.flags);
  if (value.has(Attributes::kSize)) {
    number64(value.size);
  }
  if (value.has(Attributes::kOwner)) {
    number32(value.uid).number32(value.gid);
  }
  if (value.has(Attributes::kMode)) {
    number32(value.mode);
  }
  if (value.has(Attributes::kTimes)) {
    number32(value.accessed_at).number32(value.modified_at);
  }
  return *this;
}

void PacketWriter::finish() {
  replace32(begin_, static_cast<uint32_t>(out_.size() - begin_ - kLengthBytes));
}

void PacketWriter::replace32(size_t place, uint32_t value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out_.at(place + i) = static_cast<char>(value >> (kByteBits * (sizeof value - 1 - i)));
  }
}

uint32_t packet_length(std::string_view bytes) { return PacketReader(bytes).number32(); }

}  // namespace agent::sftp
