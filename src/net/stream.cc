#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/sys.h"

namespace net {
namespace {

constexpr size_t kCopyBytes = size_t{256} * 1024;
constexpr int kPipeBytes = 1024 * 1024;  // /proc/sys/fs/pipe-max-size

bool is_disconnect(int number) { return number == ECONNRESET || number == EPIPE; }

std::unexpected<Error> io_error(std::string_view what) {
  if (is_disconnect(errno)) {
    return base::fail(ErrorCode::connection_closed, what, ": the peer closed the connection");
  }
  return base::fail_errno(errno, what);
}

// write(2) that raises no SIGPIPE on sockets; pipes have it ignored by main.
ssize_t write_parts(int fd, std::span<iovec> parts, int flags) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t count = ::sendmsg(fd, &message, flags | MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && errno == ENOTSOCK) {
    return ::writev(fd, parts.data(), static_cast<int>(parts.size()));
  }
  return count;
}

}  // namespace

void drop_sent(std::span<std::string_view> parts, size_t sent) {
  for (std::string_view& part : parts) {
    const size_t of_part = std::min(sent, part.size());
    part.remove_prefix(of_part);
    sent -= of_part;
  }
}

Error wake_error(EventLoop::Wake wake, std::string_view what) {
  const bool late = wake == EventLoop::Wake::deadline;
  return Error{.code = late ? ErrorCode::deadline_exceeded : ErrorCode::cancelled,
               .message = base::cat(what, late ? ": timed out" : ": cancelled"),
               .details = {}};
}

Task<Result<size_t>> Stream::read_some(std::span<char> buffer, Deadline deadline) {
  for (;;) {
    const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
    if (count >= 0) {
      co_return static_cast<size_t>(count);
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      co_return io_error("read");
    }
    const auto wake = co_await loop_.wait(fd_.get(), EventLoop::Direction::read, deadline);
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(wake_error(wake, "read"));
    }
  }
}

Task<Result<void>> Stream::write_more(std::string_view first, std::string_view second,
                                      base::Milliseconds patience) {
  return send_all(first, second, {}, MSG_MORE, patience);
}

Task<Result<void>> Stream::send_all(std::string_view first, std::string_view second,
                                    std::string_view third, int flags,
                                    base::Milliseconds patience) {
  std::array<std::string_view, 3> left{first, second, third};
  while (std::ranges::any_of(left, [](std::string_view part) { return !part.empty(); })) {
    std::array<iovec, left.size()> parts;
    std::ranges::transform(left, parts.begin(), [](std::string_view part) {
      return iovec{const_cast<char*>(part.data()), part.size()};
    });
    const ssize_t count = write_parts(fd_.get(), parts, flags);
    if (count >= 0) {
      drop_sent(left, static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      co_return io_error("write");
    }
    const auto wake =
        co_await loop_.wait(fd_.get(), EventLoop::Direction::write, Deadline::after(patience));
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(wake_error(wake, "write"));
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> Stream::wait_readable(Deadline deadline) {
  const auto wake = co_await loop_.wait(fd_.get(), EventLoop::Direction::read, deadline);
  if (wake != EventLoop::Wake::ready) {
    co_return std::unexpected(wake_error(wake, "wait"));
  }
  co_return Result<void>{};
}

void Stream::shutdown_write() { ::shutdown(fd_.get(), SHUT_WR); }

void Stream::close() {
  if (fd_) {
    loop_.forget(fd_.get());
    fd_.reset();
  }
}

namespace {

Task<Result<uint64_t>> copy_bytes(Stream& from, Stream& to, uint64_t bytes,
                                  base::Milliseconds patience) {
  std::vector<char> buffer(static_cast<size_t>(std::min<uint64_t>(bytes, kCopyBytes)));
  uint64_t moved = 0;
  while (moved < bytes) {
    const auto room = static_cast<size_t>(std::min<uint64_t>(buffer.size(), bytes - moved));
    CO_ASSIGN_OR_RETURN(const size_t count, co_await from.read_some(std::span(buffer).first(room),
                                                                    Deadline::after(patience)));
    if (count == 0) {
      break;
    }
    CO_RETURN_IF_ERROR(co_await to.write_all(std::string_view(buffer.data(), count), patience));
    moved += count;
  }
  co_return moved;
}

// One splice(2), waiting as often as it says EAGAIN. 0: end of input.
Task<Result<size_t>> splice_once(int source, int target, size_t bytes, Stream& waits,
                                 EventLoop::Direction direction, base::Milliseconds patience) {
  for (;;) {
    const ssize_t count =
        ::splice(source, nullptr, target, nullptr, bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (count >= 0) {
      co_return static_cast<size_t>(count);
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      co_return io_error("splice");
    }
    const auto wake = co_await waits.loop().wait(waits.fd(), direction, Deadline::after(patience));
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(wake_error(wake, "splice"));
    }
  }
}

}  // namespace

bool SplicePipe::make() {
  if (out_) {
    return true;
  }
  auto pipe = base::sys::make_pipe(O_NONBLOCK);
  if (!pipe) {
    return false;
  }
  ::fcntl(pipe->second.get(), F_SETPIPE_SZ, kPipeBytes);
  out_ = std::move(pipe->first);
  in_ = std::move(pipe->second);
  return true;
}

Task<Result<uint64_t>> SplicePipe::move(Stream& from, Stream& to, uint64_t bytes,
                                        base::Milliseconds patience) {
  if (!make()) {
    co_return co_await copy_bytes(from, to, bytes, patience);
  }
  uint64_t moved = 0;
  while (moved < bytes) {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(kPipeBytes, bytes - moved));
    auto taken = co_await splice_once(from.fd(), in_.get(), wanted, from,
                                      EventLoop::Direction::read, patience);
    if (!taken) {
      if (taken.error().errno_value == EINVAL && moved == 0) {
        co_return co_await copy_bytes(from, to, bytes, patience);
      }
      co_return std::unexpected(std::move(taken).error());
    }
    if (*taken == 0) {
      break;
    }
    for (size_t left = *taken; left > 0;) {
      CO_ASSIGN_OR_RETURN(const size_t given,
                          co_await splice_once(out_.get(), to.fd(), left, to,
                                               EventLoop::Direction::write, patience));
      left -= given;
    }
    moved += *taken;
  }
  co_return moved;
}

}  // namespace net
