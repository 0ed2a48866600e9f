// Stream: one connected, non-blocking descriptor (socket or pipe) read and written by coroutines.
// Owned by one connection; at most one reader and one writer at a time. Loop thread only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "net/event_loop.h"

namespace net {

class Stream {
 public:
  // `fd` must be non-blocking.
  Stream(EventLoop& loop, base::Fd fd) : loop_(loop), fd_(std::move(fd)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { close(); }

  // Reads what is there, at least one byte; 0 at the end of the stream. Errors: deadline_exceeded,
  // cancelled, connection_closed (reset), io.
  Task<Result<size_t>> read_some(std::span<char> buffer, Deadline deadline);
  // All of the bytes; the deadline bounds each wait for room, not the sum.
  Task<Result<void>> write_all(std::string_view bytes, base::Milliseconds patience) {
    return write_all(bytes, {}, {}, patience);
  }
  // Several parts one after the other, in as few system calls as they take.
  Task<Result<void>> write_all(std::string_view first, std::string_view second,
                               base::Milliseconds patience) {
    return write_all(first, second, {}, patience);
  }
  Task<Result<void>> write_all(std::string_view first, std::string_view second,
                               std::string_view third, base::Milliseconds patience) {
    return send_all(first, second, third, 0, patience);
  }
  // The same where more follows at once: the kernel may wait for it to fill a packet (MSG_MORE).
  Task<Result<void>> write_more(std::string_view first, std::string_view second,
                                base::Milliseconds patience);
  // Returns when the peer has closed or shut down its sending side (or bytes have arrived, which a
  // peer that waits for an answer does not send): how a client that went away is noticed while
  // its command runs. Errors: cancelled.
  Task<Result<void>> wait_readable(Deadline deadline);

  void shutdown_write();
  void close();
  [[nodiscard]] bool is_open() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] EventLoop& loop() { return loop_; }

 private:
  Task<Result<void>> send_all(std::string_view first, std::string_view second,
                              std::string_view third, int flags, base::Milliseconds patience);

  EventLoop& loop_;
  base::Fd fd_;
};

// Takes the first `sent` bytes off a row of parts, as a system call that sent so many leaves it.
void drop_sent(std::span<std::string_view> parts, size_t sent);

// What a wait that did not end in `ready` means to the caller.
Error wake_error(EventLoop::Wake wake, std::string_view what);

// Moves bytes from one stream to another through a kernel pipe without copying to user space
// (splice(2)). The pipe is made when first needed and empty between calls.
class SplicePipe {
 public:
  // Up to `bytes`; how many were moved, fewer only at the end of `from`. Falls back to copying
  // where a descriptor cannot be spliced. `patience` bounds each wait. After an error bytes may be
  // lost.
  Task<Result<uint64_t>> move(Stream& from, Stream& to, uint64_t bytes,
                              base::Milliseconds patience);

 private:
  [[nodiscard]] bool make();

  base::Fd out_;
  base::Fd in_;
};

}  // namespace net
