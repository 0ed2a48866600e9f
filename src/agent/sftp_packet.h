// Packets of SFTP version 3 (draft-ietf-secsh-filexfer-02): fields in, fields out, without I/O.
// What a client sends is hostile: every read is checked against the packet's end, and once one
// failed all that follow give nothing and ok() is false.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace agent::sftp {

enum class Type : uint8_t {
  init = 1,
  version = 2,
  open = 3,
  close = 4,
  read = 5,
  write = 6,
  lstat = 7,
  fstat = 8,
  setstat = 9,
  fsetstat = 10,
  opendir = 11,
  readdir = 12,
  remove = 13,
  mkdir = 14,
  rmdir = 15,
  realpath = 16,
  stat = 17,
  rename = 18,
  readlink = 19,
  symlink = 20,
  status = 101,
  handle = 102,
  data = 103,
  name = 104,
  attributes = 105,
  extended = 200,
  extended_reply = 201,
};

enum class Status : uint32_t {
  ok = 0,
  end_of_file = 1,
  no_such_file = 2,
  permission_denied = 3,
  failure = 4,
  bad_message = 5,
  unsupported = 8,
};

// Of a packet behind its length: what OpenSSH's client takes and sends at most.
inline constexpr uint32_t kPacketBytesMax = 256 * 1024;
inline constexpr size_t kLengthBytes = 4;
// Of a read's or a write's data: the packet with room for its other fields.
inline constexpr uint32_t kDataBytesMax = kPacketBytesMax - 1024;

// What a packet says of a file. Fields without their flag are 0.
struct Attributes {
  static constexpr uint32_t kSize = 0x1;
  static constexpr uint32_t kOwner = 0x2;
  static constexpr uint32_t kMode = 0x4;
  static constexpr uint32_t kTimes = 0x8;
  static constexpr uint32_t kExtended = 0x80000000;

  uint32_t flags = 0;
  uint64_t size = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t mode = 0;
  uint32_t accessed_at = 0;
  uint32_t modified_at = 0;

  [[nodiscard]] bool has(uint32_t flag) const { return (flags & flag) != 0; }
};

class PacketReader {
 public:
  explicit PacketReader(std::string_view bytes) : rest_(bytes) {}

  uint8_t number8();
  uint32_t number32();
  uint64_t number64();
  std::string_view text();
  // A text without NUL: anything else is a broken packet.
  std::string path();
  Attributes attributes();
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view take(size_t count);
  uint64_t number(size_t bytes);

  std::string_view rest_;
  bool ok_ = true;
};

// Appends packets to a buffer; its owner sends and empties it.
class PacketWriter {
 public:
  explicit PacketWriter(std::string& out) : out_(out) {}

  // Until finish() the packet is open; its length is filled in then.
  PacketWriter& begin(Type type);
  PacketWriter& number8(uint8_t value);
  PacketWriter& number32(uint32_t value);
  PacketWriter& number64(uint64_t value);
  PacketWriter& text(std::string_view value);
  PacketWriter& attributes(const Attributes& value);
  void finish();
  // Overwrites a number that was written before, at that place of the buffer.
  void replace32(size_t place, uint32_t value);
  [[nodiscard]] size_t place() const { return out_.size(); }

 private:
  void number(uint64_t value, size_t bytes);

  std::string& out_;
  size_t begin_ = 0;
};

// The length of the packet that begins `bytes`, without those of the length itself; 0 while they
// are not all there.
uint32_t packet_length(std::string_view bytes);

}  // namespace agent::sftp
