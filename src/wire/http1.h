// HTTP/1.1 (RFC 9112) without I/O: bytes in, values out. Strict, since two of our programs read
// the same bytes one after the other and must never disagree where a message ends: a request with
// both lengths, a repeated length, folded lines, bare LF or an unknown transfer coding is
// malformed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wire::http {

using base::Result;

// Request line and headers together; more is 431.
inline constexpr size_t kHeadBytesMax = size_t{32} * 1024;
inline constexpr size_t kHeadersMax = 100;

struct Header {
  std::string name;  // lower case
  std::string value;
};

// How the end of a body is told.
enum class BodyKind { none, length, chunked, until_close };

struct Head {
  std::vector<Header> headers;
  BodyKind body = BodyKind::none;
  uint64_t content_length = 0;  // of BodyKind::length
  bool keep_alive = true;

  // The first header of that (lower case) name, or nullptr.
  [[nodiscard]] const std::string* find(std::string_view name) const;
};

struct Request : Head {
  std::string method;  // "GET"
  std::string target;  // as sent: "/sandboxes/x/files?path=%2Fa"
  std::string path;    // before '?', still percent-encoded
  std::string query;   // after '?', still percent-encoded
  bool expect_continue = false;

  // The decoded value of a query parameter; nullopt when absent. A broken escape and a parameter
  // given twice are malformed. '+' is a plus.
  [[nodiscard]] Result<std::optional<std::string>> parameter(std::string_view name) const;
  // All parameters decoded, in order.
  [[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> parameters() const;
};

struct Response : Head {
  int status = 0;
};

// Length of the head at the front of `bytes` with its empty line; nullopt if it is not whole yet;
// headers_too_large past kHeadBytesMax, malformed for an empty line without CR.
Result<std::optional<size_t>> find_head(std::string_view bytes);
// `head` is exactly what find_head delimited.
Result<Request> parse_request(std::string_view head);
// `request_method` decides whether a body follows (HEAD has none).
Result<Response> parse_response(std::string_view head, std::string_view request_method);

// Takes a body apart. Feed what was read; a step gives the bytes to drop from the input and a
// view into it that is payload. Ends once; `finished` then stays true.
class BodyDecoder {
 public:
  BodyDecoder() = default;
  explicit BodyDecoder(const Head& head)
      : kind_(head.body),
        left_(head.content_length),
        finished_(head.body == BodyKind::none ||
                  (head.body == BodyKind::length && head.content_length == 0)) {}

  struct Step {
    size_t consumed = 0;       // of the input, payload included
    std::string_view payload;  // may be empty although something was consumed
  };
  // Malformed for broken chunk framing. With empty input nothing happens.
  Result<Step> next(std::string_view input);
  // The peer closed: fine only for until_close or when finished; otherwise connection_closed.
  Result<void> end_of_input();
  [[nodiscard]] bool finished() const { return finished_; }
  // Payload bytes certainly still to come in the current length or chunk (for splice).
  [[nodiscard]] uint64_t left() const { return left_; }
  // A chunk's head comes next, or the end of one.
  [[nodiscard]] bool between_chunks() const { return kind_ == BodyKind::chunked && left_ == 0; }
  // From here on more payload than that is body_too_large; of a body whose length is told nothing
  // is checked.
  void limit(uint64_t bytes) { most_ = bytes; }
  // Takes note of payload bytes that were moved without going through next().
  void skip(uint64_t bytes);

 private:
  enum class Chunk { size, data, data_end, trailer };
  Result<Step> next_chunked(std::string_view input);

  BodyKind kind_ = BodyKind::none;
  uint64_t left_ = 0;
  uint64_t most_ = UINT64_MAX;  // that may still come in further chunks
  Chunk chunk_ = Chunk::size;
  std::string line_;  // a size or trailer line not yet whole; bounded
  size_t trailer_bytes_ = 0;
  bool finished_ = true;
};

// Builds heads: HeadBuilder("HTTP/1.1 200 OK").add("content-length", "0").finish().
class HeadBuilder {
 public:
  static HeadBuilder response(int status);
  static HeadBuilder request(std::string_view method, std::string_view target);
  // CR, LF and NUL in a value are replaced by a blank: no header can be smuggled in.
  HeadBuilder& add(std::string_view name, std::string_view value);
  HeadBuilder& add_length(uint64_t bytes);
  HeadBuilder& add_chunked();
  std::string finish();

 private:
  std::string text_;
};

std::string_view reason_phrase(int status);
// "1a\r\n": what goes before a chunk's bytes; "\r\n" goes behind them.
std::string chunk_head(size_t bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace wire::http
