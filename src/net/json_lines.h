// JsonLines: one JSON object a line, with descriptors, over a connected unix socket: what
// api/node-protocol.md is made of, for both ends. Owned by one connection; loop thread only. A
// line is at most 1 MiB; lines that the peer does not take are kept up to kQueuedBytesMax, then
// send() fails and the owner drops the connection. Anything malformed ends the reading.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "net/event_loop.h"
#include "net/task.h"
#include "wire/json.h"

namespace net {

class JsonLines {
 public:
  static constexpr size_t kLineBytesMax = size_t{1024} * 1024;  // api/node-protocol.md
  // A peer that is this far behind does not read any more.
  static constexpr size_t kQueuedBytesMax = size_t{32} * 1024 * 1024;
  static constexpr size_t kFdsMax = 16;  // under way without their line

  struct Line {
    wire::json::Object object;
    std::vector<base::Fd> fds;
  };

  // `socket` is connected and non-blocking.
  JsonLines(EventLoop& loop, base::Fd socket) : loop_(loop), socket_(std::move(socket)) {}
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  ~JsonLines() { close(); }

  // The next line; nullopt when the peer has closed. Errors: cancelled, deadline_exceeded,
  // malformed, connection_closed, io.
  Task<Result<std::optional<Line>>> read(Deadline deadline);
  // Sends now what fits and the rest when there is room. `object` gets "fds" when there are some.
  // Errors: overloaded (see above), body_too_large, connection_closed, io.
  Result<void> send(wire::json::Object object, std::vector<base::Fd> fds = {});
  void close();
  [[nodiscard]] bool is_open() const { return socket_.valid(); }
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  struct Outgoing {
    std::string bytes;
    size_t sent = 0;
    std::vector<base::Fd> fds;  // go with the first byte
  };
  Result<std::optional<Line>> take_line();
  Result<size_t> receive();  // 0: end of the stream; io with EAGAIN: nothing there
  Result<void> flush();

  EventLoop& loop_;
  base::Fd socket_;
  std::string buffer_;
  size_t searched_ = 0;  // of buffer_, without a line's end
  std::deque<base::Fd> received_fds_;
  std::deque<Outgoing> outgoing_;
  size_t queued_bytes_ = 0;
  std::optional<Error> broken_;  // what a later flush met
};

}  // namespace net
