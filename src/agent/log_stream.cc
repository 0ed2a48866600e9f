#include "agent/log_stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>

#include "base/fault.h"

namespace agent {
namespace {

using net::Deadline;
using std::chrono::steady_clock;

constexpr size_t kPieceBytes = size_t{64} * 1024;
// A client that takes nothing at all for so long is gone.
constexpr base::Milliseconds kClientPatience{600'000};
constexpr size_t kPartsMax = 3;
// So much of a flood's pieces the client's socket is to hold (the kernel doubles it for its own
// book-keeping).
constexpr int kFloodBytes = OutputPipe::kReadBytesMax;

}  // namespace

LogStream::LogStream(SessionPtr session, net::Stream& client, LogFraming& framing,
                     uint64_t position, std::optional<uint64_t> bound, base::Milliseconds silence)
    : session_(std::move(session)),
      client_(client),
      framing_(framing),
      position_(std::max(position, session_->log().start_offset())),
      bound_(bound),
      silence_(silence),
      last_progress_(steady_clock::now()),
      last_sign_(last_progress_),
      changed_(client.loop()),
      following_(session_->join(*this, position_)) {}

LogStream::~LogStream() { session_->leave(following_); }

void LogStream::say(std::string_view bytes) {
  said_ += bytes;
  changed_.notify();
}

void LogStream::stop() {
  stopping_ = true;
  changed_.notify();
}

void LogStream::leave() {
  gone_ = true;
  changed_.notify();
}

void LogStream::moved(uint64_t position) {
  position_ = position;
  last_progress_ = steady_clock::now();
  session_->moved(following_, position);
}

ssize_t LogStream::send_once(std::span<const std::string_view> parts) {
  std::array<iovec, kPartsMax> vectors{};
  size_t count = 0;
  for (const std::string_view part : parts) {
    if (!part.empty()) {
      vectors.at(count++) = {const_cast<char*>(part.data()), part.size()};
    }
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  return ::sendmsg(client_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

net::Task<Result<void>> LogStream::send(std::span<const std::string_view> parts, Parts kind) {
  bool is_progress = kind == Parts::told;
  std::array<std::string_view, kPartsMax> left{};
  std::ranges::copy(parts, left.begin());
  size_t bytes = 0;
  for (const std::string_view part : left) {
    bytes += part.size();
  }
  while (bytes > 0) {
    if (gone_) {
      co_return base::fail(ErrorCode::connection_closed, "the client has gone");
    }
    const ssize_t count = send_once(left);
    if (count >= 0) {
      bytes -= static_cast<size_t>(count);
      net::drop_sent(left, static_cast<size_t>(count));
      if (is_progress) {
        moved(position_);
      }
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      co_return base::fail(ErrorCode::connection_closed, "the client has gone");
    }
    const auto wake = co_await client_.loop().wait(client_.fd(), net::EventLoop::Direction::write,
                                                   Deadline::after(kClientPatience));
    if (wake != net::EventLoop::Wake::ready) {
      co_return std::unexpected(net::wake_error(wake, "tell a session's log"));
    }
    is_progress = true;  // there is room because the client took something
  }
  last_sign_ = steady_clock::now();
  co_return Result<void>{};
}

void LogStream::offer(const SessionLog::Piece& piece, std::string_view bytes) {
  if (!waiting_ || gone_ || stopping_ || !said_.empty() || position_ != piece.offset || bound_) {
    return;  // run() finds them in the log
  }
  if (!framing_.wants(piece.stream)) {
    moved(piece.offset + piece.size);
    return;
  }
  const LogFraming::Framed framed = framing_.frame(piece, bytes);
  std::array<std::string_view, kPartsMax> parts{framed.head, framed.body, framed.tail};
  const ssize_t count = send_once(parts);
  if (count < 0 && errno != EAGAIN && errno != EINTR) {
    leave();
    return;
  }
  net::drop_sent(parts, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  for (const std::string_view part : parts) {
    said_ += part;
  }
  last_sign_ = steady_clock::now();
  if (said_.empty()) {
    moved(piece.offset + piece.size);
    return;
  }
  // The rest waits here until there is room; only then has the client taken the piece.
  if (!std::exchange(flooded_, true)) {
    ::setsockopt(client_.fd(), SOL_SOCKET, SO_SNDBUF, &kFloodBytes, sizeof kFloodBytes);
  }
  position_ = piece.offset + piece.size;
  changed_.notify();
}

net::Task<Result<void>> LogStream::tell_piece(uint64_t end) {
  SessionLog::Piece piece{.offset = position_, .size = end - position_};
  if (framing_.by_record()) {
    piece = session_->log().look_up(position_, hint_);
    piece.size = std::min(piece.size, end - position_);
  }
  if (!framing_.wants(piece.stream)) {
    moved(position_ + piece.size);
    co_return Result<void>{};
  }
  const auto buffer = std::make_unique_for_overwrite<char[]>(kPieceBytes);
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(piece.size, kPieceBytes));
  CO_ASSIGN_OR_RETURN(const size_t size, session_->log().read(position_, {buffer.get(), wanted}));
  piece.size = size;
  const LogFraming::Framed framed = framing_.frame(piece, {buffer.get(), size});
  const std::array<std::string_view, kPartsMax> parts{framed.head, framed.body, framed.tail};
  position_ += size;
  co_return co_await send(parts);
}

net::Task<Result<void>> LogStream::wait() {
  waiting_ = true;
  const auto wake = co_await changed_.wait(Deadline::at(last_sign_ + silence_));
  waiting_ = false;
  if (wake == net::EventLoop::Wake::cancelled) {
    co_return std::unexpected(net::wake_error(wake, "tell a session's log"));
  }
  if (wake == net::EventLoop::Wake::deadline) {
    last_sign_ = steady_clock::now();
    const std::string sign = framing_.silence();
    const std::array<std::string_view, 1> parts{sign};
    co_return co_await send(parts, Parts::sign);
  }
  co_return Result<void>{};
}

net::Task<Result<void>> LogStream::run() {
  for (;;) {
    if (gone_) {
      co_return base::fail(ErrorCode::connection_closed, "the client has gone");
    }
    if (!said_.empty()) {
      const std::string said = std::exchange(said_, {});
      const std::array<std::string_view, 1> parts{said};
      CO_RETURN_IF_ERROR(co_await send(parts));
      continue;
    }
    if (stopping_) {
      co_return Result<void>{};
    }
    const SessionLog& log = session_->log();
    if (position_ < log.start_offset()) {
      const auto note = framing_.skipped(position_, log.start_offset());
      if (!note) {
        co_return base::fail(ErrorCode::connection_closed, "the log has moved past the client");
      }
      said_ += *note;
      moved(log.start_offset());
      continue;
    }
    const uint64_t end = std::min(bound_.value_or(UINT64_MAX), log.end_offset());
    if (position_ < end) {
      CO_RETURN_IF_ERROR(co_await tell_piece(end));
      continue;
    }
    base::fault_point("agent.session.told");
    const bool over = session_->over();
    if (over || (bound_ && position_ >= *bound_)) {
      said_ += framing_.finish(*session_, over);
      stopping_ = true;
      continue;
    }
    CO_RETURN_IF_ERROR(co_await wait());
  }
}

}  // namespace agent
