// WebSocket frames (RFC 6455) without I/O, for both ends: bytes in, messages out, and what goes
// before a frame's bytes. No extensions. The handshake is HTTP and not here. Strict: whatever the
// RFC forbids is a Violation with the close code to answer. A decoder holds at most one message
// and one control frame.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace wire::websocket {

// Whose end this is: a server must be sent masked frames, a client must not.
enum class Role { client, server };

enum class Opcode : uint8_t {
  continuation = 0x0,
  text = 0x1,
  binary = 0x2,
  close = 0x8,
  ping = 0x9,
  pong = 0xA,
};

// RFC 6455 7.4.1: those that we send or tell apart.
inline constexpr uint16_t kCloseNormal = 1000;
inline constexpr uint16_t kCloseGoingAway = 1001;
inline constexpr uint16_t kCloseProtocolError = 1002;
inline constexpr uint16_t kCloseUnsupported = 1003;
inline constexpr uint16_t kCloseNoStatus = 1005;  // never on the wire: a close without a code
inline constexpr uint16_t kCloseInvalidText = 1007;
inline constexpr uint16_t kClosePolicy = 1008;
inline constexpr uint16_t kCloseTooBig = 1009;
inline constexpr uint16_t kCloseInternal = 1011;

inline constexpr size_t kControlBytesMax = 125;

struct Violation {
  uint16_t close_code = kCloseProtocolError;
  std::string_view reason;
};

struct Event {
  enum class Kind { text, binary, ping, pong, close };
  Kind kind = Kind::binary;
  std::string_view payload;  // of a close: the reason. Holds until the next call of next()
  uint16_t close_code = 0;   // of a close; kCloseNoStatus if none was sent
};

class Decoder {
 public:
  // A message of more than `message_bytes_max` bytes, fragments together, is a violation (1009).
  Decoder(Role own_role, size_t message_bytes_max)
      : role_(own_role), message_bytes_max_(message_bytes_max) {}

  struct Step {
    size_t consumed = 0;  // of the input; 0 only when it is empty
    std::optional<Event> event;
  };
  // Feed what was read, and what a step left over again. Text is checked to be UTF-8, fragments
  // are put together. After a close or a violation everything is consumed and nothing comes.
  std::expected<Step, Violation> next(std::string_view input);
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  struct Frame {
    Opcode opcode = Opcode::continuation;
    bool final = true;
    uint64_t left = 0;  // payload bytes still to come
    std::array<char, 4> key{};
    size_t key_at = 0;
  };
  // Bytes the head has in all, as far as it is known yet.
  [[nodiscard]] size_t head_wanted() const;
  std::expected<void, Violation> begin_frame();
  std::expected<void, Violation> check_frame(bool masked, uint64_t size) const;
  std::expected<std::optional<Event>, Violation> end_frame(std::string_view payload);
  std::expected<Event, Violation> read_close(std::string_view payload) const;
  std::expected<Step, Violation> take(std::string_view input);
  void append(std::string& target, std::string_view bytes);

  Role role_;
  size_t message_bytes_max_;
  std::array<char, 14> head_{};
  size_t head_size_ = 0;
  std::optional<Frame> frame_;                    // its head is whole
  Opcode message_opcode_ = Opcode::continuation;  // continuation: none has begun
  std::string message_;
  std::string control_;
  bool message_given_ = false;  // message_ was handed out and may be cleared
  bool finished_ = false;
};

// The head of a server's frame; its payload follows as it is.
class FrameHead {
 public:
  FrameHead(Opcode opcode, uint64_t payload_bytes, bool final = true);
  [[nodiscard]] std::string_view bytes() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 10> bytes_{};
  size_t size_ = 0;
};

// A whole frame as a server sends it.
std::string make_frame(Opcode opcode, std::string_view payload);
// As a client sends it. `key` must be unpredictable to whoever chose the payload.
std::string make_masked_frame(Opcode opcode, std::string_view payload,
                              const std::array<char, 4>& key);
// The payload of a close frame; a reason of more than 123 bytes is cut.
std::string close_payload(uint16_t code, std::string_view reason);

}  // namespace wire::websocket
