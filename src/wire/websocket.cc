#include "wire/websocket.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace wire::websocket {
namespace {

constexpr uint8_t kFinalBit = 0x80;
constexpr uint8_t kReservedBits = 0x70;
constexpr uint8_t kOpcodeBits = 0x0F;
constexpr uint8_t kControlBit = 0x08;
constexpr uint8_t kMaskBit = 0x80;
constexpr uint8_t kLengthBits = 0x7F;
constexpr uint8_t kLength16 = 126;
constexpr uint8_t kLength64 = 127;
constexpr uint64_t kLength16Max = 0xFFFF;
constexpr size_t kKeyBytes = 4;
constexpr size_t kCodeBytes = 2;
// What an unfragmented message reserves at once; more only as it arrives.
constexpr uint64_t kReserveBytesMax = uint64_t{64} * 1024;

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

bool is_control(Opcode opcode) { return (std::to_underlying(opcode) & kControlBit) != 0; }

bool is_known(uint8_t opcode) {
  return opcode <= std::to_underlying(Opcode::binary) ||
         (opcode >= std::to_underlying(Opcode::close) &&
          opcode <= std::to_underlying(Opcode::pong));
}

uint64_t read_number(std::string_view bytes) {
  uint64_t number = 0;
  for (const char c : bytes) {
    number = number << 8U | byte_of(c);
  }
  return number;
}

// RFC 6455 7.4: 1004 to 1006 and 1015 are never sent; up to 2999 only the registered ones are.
bool is_sendable(uint64_t code) {
  constexpr uint64_t kLastRegistered = 1014;
  return (code >= kCloseNormal && code <= kLastRegistered && (code < 1004 || code > 1006)) ||
         (code >= 3000 && code <= 4999);
}

// `at`: how many bytes of the frame came before.
void apply_key(char* bytes, size_t size, const std::array<char, 4>& key, size_t at) {
  std::array<char, 8> turned{};
  for (size_t i = 0; i < turned.size(); ++i) {
    turned.at(i) = key.at((at + i) % kKeyBytes);
  }
  uint64_t word_key = 0;
  std::memcpy(&word_key, turned.data(), sizeof word_key);
  size_t i = 0;
  for (; i + sizeof word_key <= size; i += sizeof word_key) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    word ^= word_key;
    std::memcpy(bytes + i, &word, sizeof word);
  }
  for (; i < size; ++i) {
    bytes[i] = static_cast<char>(bytes[i] ^ turned.at(i % turned.size()));
  }
}

std::unexpected<Violation> violation(std::string_view reason, uint16_t code = kCloseProtocolError) {
  return std::unexpected(Violation{.close_code = code, .reason = reason});
}

}  // namespace

size_t Decoder::head_wanted() const {
  if (head_size_ < 2) {
    return 2;
  }
  const uint8_t second = byte_of(head_[1]);
  const uint8_t length = second & kLengthBits;
  const size_t extended = length == kLength16 ? 2 : length == kLength64 ? 8 : 0;
  return 2 + extended + ((second & kMaskBit) != 0 ? kKeyBytes : 0);
}

std::expected<void, Violation> Decoder::begin_frame() {
  const std::string_view head(head_.data(), head_size_);
  const uint8_t first = byte_of(head[0]);
  const uint8_t second = byte_of(head[1]);
  if ((first & kReservedBits) != 0) {
    return violation("a reserved bit is set");
  }
  if (!is_known(first & kOpcodeBits)) {
    return violation("unknown opcode");
  }
  const bool masked = (second & kMaskBit) != 0;
  const size_t extended = head.size() - 2 - (masked ? kKeyBytes : 0);
  const uint64_t size =
      extended == 0 ? second & kLengthBits : read_number(head.substr(2, extended));
  const uint64_t least = extended == 0 ? 0 : extended == 2 ? kLength16 : kLength16Max + 1;
  if (size < least || (size >> 63U) != 0) {
    return violation("the length is not in its shortest form");
  }
  Frame frame{.opcode = static_cast<Opcode>(first & kOpcodeBits),
              .final = (first & kFinalBit) != 0,
              .left = size};
  if (masked) {
    std::ranges::copy(head.substr(head.size() - kKeyBytes), frame.key.begin());
  }
  frame_ = frame;
  return check_frame(masked, size);
}

std::expected<void, Violation> Decoder::check_frame(bool masked, uint64_t size) const {
  if (masked != (role_ == Role::server)) {
    return violation(masked ? "a server's frame is masked" : "a client's frame is not masked");
  }
  if (is_control(frame_->opcode)) {
    return size > kControlBytesMax ? violation("a control frame of more than 125 bytes")
           : !frame_->final        ? violation("a fragmented control frame")
                                   : std::expected<void, Violation>{};
  }
  const bool begun = message_opcode_ != Opcode::continuation;
  if ((frame_->opcode == Opcode::continuation) != begun) {
    return violation(begun ? "a new message inside a fragmented one"
                           : "a continuation of no message");
  }
  if (size > message_bytes_max_ - message_.size()) {
    return violation("the message is too big", kCloseTooBig);
  }
  return {};
}

void Decoder::append(std::string& target, std::string_view bytes) {
  const size_t begin = target.size();
  target += bytes;
  if (role_ == Role::server) {
    apply_key(target.data() + begin, bytes.size(), frame_->key, frame_->key_at);
    frame_->key_at = (frame_->key_at + bytes.size()) % kKeyBytes;
  }
}

std::expected<Event, Violation> Decoder::read_close(std::string_view payload) const {
  Event event{.kind = Event::Kind::close, .close_code = kCloseNoStatus};
  if (payload.empty()) {
    return event;
  }
  const uint64_t code = read_number(payload.substr(0, kCodeBytes));
  if (payload.size() < kCodeBytes || !is_sendable(code)) {
    return violation("not a close code");
  }
  event.close_code = static_cast<uint16_t>(code);
  event.payload = payload.substr(kCodeBytes);
  if (!base::is_utf8(event.payload)) {
    return violation("the reason of a close is not UTF-8", kCloseInvalidText);
  }
  return event;
}

// `payload`: of a control frame its own, else the message's as far as it has come.
std::expected<std::optional<Event>, Violation> Decoder::end_frame(std::string_view payload) {
  const Frame frame = *std::exchange(frame_, std::nullopt);
  head_size_ = 0;
  if (frame.opcode == Opcode::close) {
    auto event = read_close(payload);
    if (!event) {
      return std::unexpected(event.error());
    }
    finished_ = true;
    return *event;
  }
  if (is_control(frame.opcode)) {
    return Event{.kind = frame.opcode == Opcode::ping ? Event::Kind::ping : Event::Kind::pong,
                 .payload = payload};
  }
  if (frame.opcode != Opcode::continuation) {
    message_opcode_ = frame.opcode;
  }
  if (!frame.final) {
    return std::nullopt;
  }
  const bool text = message_opcode_ == Opcode::text;
  message_opcode_ = Opcode::continuation;
  message_given_ = true;
  if (text && !base::is_utf8(payload)) {
    return violation("a text message is not UTF-8", kCloseInvalidText);
  }
  return Event{.kind = text ? Event::Kind::text : Event::Kind::binary, .payload = payload};
}

std::expected<Decoder::Step, Violation> Decoder::take(std::string_view input) {
  Step step;
  if (!frame_) {
    while (head_size_ < head_wanted() && step.consumed < input.size()) {
      head_.at(head_size_++) = input[step.consumed++];
    }
    if (head_size_ < head_wanted()) {
      return step;
    }
    if (const auto begun = begin_frame(); !begun) {
      return std::unexpected(begun.error());
    }
    input.remove_prefix(step.consumed);
  }
  const bool control = is_control(frame_->opcode);
  std::string& target = control ? control_ : message_;
  const auto size = static_cast<size_t>(std::min<uint64_t>(input.size(), frame_->left));
  const std::string_view bytes = input.substr(0, size);
  const bool whole = size == frame_->left;
  step.consumed += size;
  std::string_view payload = bytes;
  // What a server sent unmasked and at once is given as it lies.
  const bool in_place = role_ == Role::client && whole && target.empty() && frame_->final;
  if (!in_place) {
    if (target.empty()) {
      target.reserve(static_cast<size_t>(std::min(frame_->left, kReserveBytesMax)));
    }
    append(target, bytes);
    payload = target;
  }
  frame_->left -= size;
  if (!whole) {
    return step;
  }
  auto event = end_frame(payload);
  if (!event) {
    return std::unexpected(event.error());
  }
  step.event = *event;
  return step;
}

std::expected<Decoder::Step, Violation> Decoder::next(std::string_view input) {
  if (finished_ || input.empty()) {
    return Step{.consumed = input.size()};
  }
  if (std::exchange(message_given_, false)) {
    message_.clear();
  }
  if (!frame_ && head_size_ == 0) {
    control_.clear();
  }
  auto step = take(input);
  finished_ = finished_ || !step;
  return step;
}

FrameHead::FrameHead(Opcode opcode, uint64_t payload_bytes, bool final) {
  bytes_[0] = static_cast<char>(std::to_underlying(opcode) | (final ? kFinalBit : 0U));
  const size_t extended = payload_bytes < kLength16 ? 0 : payload_bytes <= kLength16Max ? 2 : 8;
  bytes_[1] = static_cast<char>(extended == 0   ? payload_bytes
                                : extended == 2 ? kLength16
                                                : kLength64);
  size_ = 2 + extended;
  for (size_t i = size_; i > 2; --i) {
    bytes_.at(i - 1) = static_cast<char>(payload_bytes & 0xFFU);
    payload_bytes >>= 8U;
  }
}

std::string make_frame(Opcode opcode, std::string_view payload) {
  return base::cat(FrameHead(opcode, payload.size()).bytes(), payload);
}

std::string make_masked_frame(Opcode opcode, std::string_view payload,
                              const std::array<char, 4>& key) {
  std::string frame(FrameHead(opcode, payload.size()).bytes());
  frame[1] = static_cast<char>(byte_of(frame[1]) | kMaskBit);
  frame.append(key.data(), key.size());
  const size_t begin = frame.size();
  frame += payload;
  apply_key(frame.data() + begin, payload.size(), key, 0);
  return frame;
}

std::string close_payload(uint16_t code, std::string_view reason) {
  std::string payload;
  payload += static_cast<char>(code >> 8U);
  payload += static_cast<char>(code & 0xFFU);
  size_t size = std::min(reason.size(), kControlBytesMax - kCodeBytes);
  // Never inside a character.
  while (size < reason.size() && size > 0 && (byte_of(reason[size]) & 0xC0U) == 0x80) {
    --size;
  }
  payload += reason.substr(0, size);
  return payload;
}

}  // namespace wire::websocket
