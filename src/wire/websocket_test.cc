#include "wire/websocket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace wire::websocket {
namespace {

using Kind = Event::Kind;

struct Seen {
  Kind kind = Kind::binary;
  std::string payload;
  uint16_t code = 0;
  bool operator==(const Seen&) const = default;
};

struct Outcome {
  std::vector<Seen> seen;
  uint16_t violation = 0;
  bool operator==(const Outcome&) const = default;
};

constexpr std::array<char, 4> kKey{'\x37', '\xFA', '\x21', '\x3D'};
constexpr size_t kLimit = 100'000;

Outcome decode(Role role, std::string_view bytes, size_t piece) {
  Decoder decoder(role, kLimit);
  Outcome outcome;
  while (!bytes.empty()) {
    std::string part(bytes.substr(0, piece));
    bytes.remove_prefix(part.size());
    for (std::string_view rest = part; !rest.empty();) {
      const auto step = decoder.next(rest);
      if (!step) {
        outcome.violation = step.error().close_code;
        EXPECT_FALSE(step.error().reason.empty());
        return outcome;
      }
      EXPECT_GT(step->consumed, 0U);
      if (step->event) {
        outcome.seen.push_back({.kind = step->event->kind,
                                .payload = std::string(step->event->payload),
                                .code = step->event->close_code});
      }
      rest.remove_prefix(step->consumed);
    }
  }
  return outcome;
}

// The same outcome however the bytes arrive.
Outcome decode(Role role, std::string_view bytes) {
  const Outcome whole = decode(role, bytes, std::max<size_t>(bytes.size(), 1));
  for (const size_t piece : {1U, 3U, 1000U}) {
    EXPECT_EQ(decode(role, bytes, piece), whole) << piece;
  }
  return whole;
}

std::string masked(Opcode opcode, std::string_view payload) {
  return make_masked_frame(opcode, payload, kKey);
}

std::string unfinished(Opcode opcode, std::string_view payload) {
  std::string frame = masked(opcode, payload);
  frame[0] = static_cast<char>(frame[0] & 0x7F);
  return frame;
}

TEST(WebSocket, reads_the_examples_of_the_rfc) {
  const Outcome hello{.seen = {{.kind = Kind::text, .payload = "Hello"}}};
  EXPECT_EQ(decode(Role::client, "\x81\x05Hello"), hello);
  EXPECT_EQ(decode(Role::server, "\x81\x85\x37\xFA\x21\x3D\x7F\x9F\x4D\x51\x58"), hello);
  EXPECT_EQ(decode(Role::client, std::string_view("\x01\x03Hel\x80\x02lo", 9)), hello);
  EXPECT_EQ(masked(Opcode::text, "Hello"), "\x81\x85\x37\xFA\x21\x3D\x7F\x9F\x4D\x51\x58");
  EXPECT_EQ(make_frame(Opcode::ping, "Hello"), "\x89\x05Hello");
}

TEST(WebSocket, every_size_passes_both_ways) {
  for (const size_t size : {0U, 1U, 125U, 126U, 127U, 65'535U, 65'536U, 100'000U}) {
    std::string payload(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      payload[i] = static_cast<char>(i * 7);
    }
    const Outcome expected{.seen = {{.kind = Kind::binary, .payload = payload}}};
    EXPECT_EQ(decode(Role::server, masked(Opcode::binary, payload)), expected) << size;
    EXPECT_EQ(decode(Role::client, make_frame(Opcode::binary, payload)), expected) << size;
  }
}

TEST(WebSocket, control_frames_stand_between_fragments) {
  const std::string bytes = unfinished(Opcode::text, "a\xE2\x82") + masked(Opcode::ping, "p") +
                            unfinished(Opcode::continuation, "") + masked(Opcode::pong, "") +
                            masked(Opcode::continuation, "\xAC") + masked(Opcode::binary, "b");
  const Outcome expected{.seen = {{.kind = Kind::ping, .payload = "p"},
                                  {.kind = Kind::pong},
                                  {.kind = Kind::text, .payload = "a€"},
                                  {.kind = Kind::binary, .payload = "b"}}};
  EXPECT_EQ(decode(Role::server, bytes), expected);
}

TEST(WebSocket, a_close_has_its_code_and_ends_all) {
  const std::string bytes = masked(Opcode::close, close_payload(kCloseGoingAway, "away"));
  const Outcome expected{
      .seen = {{.kind = Kind::close, .payload = "away", .code = kCloseGoingAway}}};
  EXPECT_EQ(decode(Role::server, bytes + "whatever comes"), expected);
  EXPECT_EQ(decode(Role::server, masked(Opcode::close, "")),
            (Outcome{.seen = {{.kind = Kind::close, .code = kCloseNoStatus}}}));
  for (const int code : {1000, 1003, 1007, 1011, 1014, 3000, 4999}) {
    const auto payload = close_payload(static_cast<uint16_t>(code), "");
    EXPECT_EQ(decode(Role::server, masked(Opcode::close, payload)).violation, 0) << code;
  }
  EXPECT_EQ(close_payload(kCloseNormal, std::string(122, 'x') + "€").size(), 124U);
}

TEST(WebSocket, what_the_rfc_forbids_is_refused_with_its_code) {
  using namespace std::string_literals;
  struct Row {
    const char* what;
    std::string bytes;
    uint16_t code;
  };
  const std::string first = unfinished(Opcode::text, "a");
  const std::vector<Row> rows = {
      {"not masked", make_frame(Opcode::text, "a"), kCloseProtocolError},
      {"reserved bit", "\xC1\x80\x00\x00\x00\x00"s, kCloseProtocolError},
      {"opcode 3", "\x83\x80\x00\x00\x00\x00"s, kCloseProtocolError},
      {"opcode 11", "\x8B\x80\x00\x00\x00\x00"s, kCloseProtocolError},
      {"fragmented ping", unfinished(Opcode::ping, "a"), kCloseProtocolError},
      {"long ping", masked(Opcode::ping, std::string(126, 'a')), kCloseProtocolError},
      {"continuation of nothing", masked(Opcode::continuation, "a"), kCloseProtocolError},
      {"message in a message", first + masked(Opcode::text, "a"), kCloseProtocolError},
      {"long form of a short length", "\x82\xFE\x00\x7D\x00\x00\x00\x00"s, kCloseProtocolError},
      {"64 bits for 16", "\x82\xFF\x00\x00\x00\x00\x00\x00\xFF\xFF\x00\x00\x00\x00"s,
       kCloseProtocolError},
      {"highest bit of a length", "\x82\xFF\x80\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"s,
       kCloseProtocolError},
      {"too big", masked(Opcode::binary, std::string(kLimit + 1, 'a')), kCloseTooBig},
      {"as big as a length can be", "\x82\xFF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00\x00\x00\x00"s,
       kCloseTooBig},
      {"too big together",
       unfinished(Opcode::binary, std::string(kLimit, 'a')) + masked(Opcode::continuation, "a"),
       kCloseTooBig},
      {"text that is not UTF-8", masked(Opcode::text, "\xC0\x80"), kCloseInvalidText},
      {"text that is cut", masked(Opcode::text, "\xE2\x82"), kCloseInvalidText},
      {"close of one byte", masked(Opcode::close, "\x03"), kCloseProtocolError},
      {"close 1005", masked(Opcode::close, close_payload(1005, "")), kCloseProtocolError},
      {"close 999", masked(Opcode::close, close_payload(999, "")), kCloseProtocolError},
      {"close 2000", masked(Opcode::close, close_payload(2000, "")), kCloseProtocolError},
      {"close 5000", masked(Opcode::close, close_payload(5000, "")), kCloseProtocolError},
      {"close reason not UTF-8", masked(Opcode::close, close_payload(kCloseNormal, "\xFF")),
       kCloseInvalidText}};
  for (const Row& row : rows) {
    const Outcome outcome = decode(Role::server, row.bytes);
    EXPECT_EQ(outcome.violation, row.code) << row.what;
    EXPECT_TRUE(outcome.seen.empty()) << row.what;
  }
  EXPECT_EQ(decode(Role::client, masked(Opcode::text, "a")).violation, kCloseProtocolError);
}

TEST(WebSocket, nothing_comes_after_a_violation) {
  Decoder decoder(Role::server, kLimit);
  EXPECT_FALSE(decoder.next("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"));
  const auto step = decoder.next(masked(Opcode::text, "a"));
  ASSERT_TRUE(step.has_value());
  EXPECT_TRUE(decoder.finished());
  EXPECT_FALSE(step->event.has_value());
}

}  // namespace
}  // namespace wire::websocket
