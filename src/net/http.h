// HTTP/1.1 over a Stream, for both ends: the gateway and the agent as servers, the gateway as the
// agent's client. Framing is wire/http1's; this adds reading and writing with deadlines. Buffers
// at most kHeadBytesMax for a head and 64 KiB for a body.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/stream.h"
#include "wire/http1.h"

namespace net {

// Reads messages off one connection, one after the other.
class HttpReader {
 public:
  static constexpr size_t kBodyReadBytes = size_t{64} * 1024;

  explicit HttpReader(Stream& stream) : stream_(stream) {}

  // The next request's head, or nullopt when the peer closed between requests. `idle` bounds the
  // wait for its first byte, `patience` the rest of the head.
  Task<Result<std::optional<wire::http::Request>>> read_request(Deadline idle,
                                                                base::Milliseconds patience);
  // The answer to a request of that method; 100 Continue is skipped.
  Task<Result<wire::http::Response>> read_response(std::string_view method, Deadline deadline);

  // The next piece of the current message's body, empty at its end. The view holds until the next
  // call. At most `room` bytes are read ahead.
  Task<Result<std::string_view>> read_body(Deadline deadline, size_t room = kBodyReadBytes);
  // All of it; more than bytes_max is body_too_large. `patience` bounds each wait.
  Task<Result<std::string>> read_whole_body(size_t bytes_max, base::Milliseconds patience);
  // Reads on and forgets at most bytes_max more, so that the connection can be kept: true if the
  // body's end was reached. `patience` bounds each wait, `time_max` all of them.
  static constexpr base::Milliseconds kDrainTimeMax{10'000};
  Task<bool> drain_body(size_t bytes_max, base::Milliseconds patience,
                        base::Milliseconds time_max = kDrainTimeMax);
  [[nodiscard]] bool body_finished() const { return decoder_.finished(); }
  // For relays: what is buffered of the body now, and the decoder to tell of spliced bytes.
  [[nodiscard]] wire::http::BodyDecoder& decoder() { return decoder_; }
  [[nodiscard]] bool has_buffered() const { return begin_ < buffer_.size(); }
  // Bytes behind the message that were read already (after an upgrade).
  std::string take_buffered();

 private:
  // Reads at most `room` bytes more into the buffer; false at the end of the stream.
  Task<Result<bool>> fill(Deadline deadline, size_t room);
  Task<Result<std::optional<std::string_view>>> read_head(Deadline idle,
                                                          base::Milliseconds patience);

  Stream& stream_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not consumed yet
  size_t head_size_ = 0;
  wire::http::BodyDecoder decoder_;
};

// Writes one message: head, then body bytes framed as the head said.
class HttpWriter {
 public:
  HttpWriter(Stream& stream, base::Milliseconds patience) : stream_(stream), patience_(patience) {}

  // Head and whole body at once.
  Task<Result<void>> write_message(std::string head, std::string_view body);
  // Head of a message whose body follows by write_chunk ... finish_chunks.
  Task<Result<void>> write_head(std::string head);
  Task<Result<void>> write_raw(std::string_view bytes);
  Task<Result<void>> write_chunk(std::string_view bytes);
  Task<Result<void>> finish_chunks();
  [[nodiscard]] bool head_written() const { return head_written_; }

 private:
  Stream& stream_;
  base::Milliseconds patience_;
  bool head_written_ = false;
};

}  // namespace net
