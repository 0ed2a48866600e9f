#include "net/json_lines.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>

#include "base/sys.h"
#include "net/stream.h"

namespace net {
namespace {

constexpr size_t kReadBytes = size_t{64} * 1024;

}  // namespace

Result<std::optional<JsonLines::Line>> JsonLines::take_line() {
  const size_t end = buffer_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    if (buffer_.size() > kLineBytesMax) {
      return base::fail(ErrorCode::malformed, "a line exceeds ", kLineBytesMax, " bytes");
    }
    return std::nullopt;
  }
  if (end > kLineBytesMax) {
    return base::fail(ErrorCode::malformed, "a line exceeds ", kLineBytesMax, " bytes");
  }
  ASSIGN_OR_RETURN(Line line, [&]() -> Result<Line> {
    ASSIGN_OR_RETURN(auto object,
                     wire::json::parse_object(std::string_view(buffer_).substr(0, end)));
    return Line{.object = std::move(object)};
  }());
  buffer_.erase(0, end + 1);
  searched_ = 0;
  wire::json::Reader reader(line.object);
  ASSIGN_OR_RETURN(const auto count, reader.optional<int64_t>("fds"));
  const int64_t wanted = count.value_or(0);
  if (wanted < 0 || static_cast<uint64_t>(wanted) > received_fds_.size()) {
    return base::fail(ErrorCode::malformed, "a line speaks of ", wanted, " descriptors, ",
                      received_fds_.size(), " came");
  }
  for (int64_t i = 0; i < wanted; ++i) {
    line.fds.push_back(std::move(received_fds_.front()));
    received_fds_.pop_front();
  }
  return line;
}

Result<size_t> JsonLines::receive() {
  const size_t old_size = buffer_.size();
  buffer_.resize(old_size + kReadBytes);
  auto received =
      base::sys::receive_with_fds(socket_.get(), std::span(buffer_.data() + old_size, kReadBytes));
  buffer_.resize(old_size + (received ? received->size : 0));
  if (!received) {
    return std::unexpected(std::move(received).error());
  }
  for (base::Fd& fd : received->fds) {
    received_fds_.push_back(std::move(fd));
  }
  if (received_fds_.size() > kFdsMax) {
    return base::fail(ErrorCode::malformed, "more than ", kFdsMax, " descriptors without a line");
  }
  return received->size;
}

Task<Result<std::optional<JsonLines::Line>>> JsonLines::read(Deadline deadline) {
  for (;;) {
    CO_ASSIGN_OR_RETURN(auto line, take_line());
    if (line) {
      co_return std::move(line);
    }
    const auto count = receive();
    if (count && *count == 0) {
      if (!buffer_.empty()) {
        co_return base::fail(ErrorCode::connection_closed, "the connection ended inside a line");
      }
      co_return std::nullopt;
    }
    if (count) {
      continue;
    }
    if (count.error().errno_value == ECONNRESET) {
      co_return base::fail(ErrorCode::connection_closed, "the peer closed the connection");
    }
    if (count.error().errno_value != EAGAIN) {
      co_return std::unexpected(count.error());
    }
    const auto wake = co_await loop_.wait(socket_.get(), EventLoop::Direction::read, deadline);
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(wake_error(wake, "read a line"));
    }
  }
}

Result<void> JsonLines::send(wire::json::Object object, std::vector<base::Fd> fds) {
  if (broken_) {
    return std::unexpected(*broken_);
  }
  if (!socket_) {
    return base::fail(ErrorCode::connection_closed, "the connection is closed");
  }
  if (!fds.empty()) {
    object["fds"] = fds.size();
  }
  Outgoing outgoing{.bytes = wire::json::serialize(object), .fds = std::move(fds)};
  if (outgoing.bytes.size() > kLineBytesMax) {
    return base::fail(ErrorCode::body_too_large, "a line of ", outgoing.bytes.size(),
                      " bytes exceeds ", kLineBytesMax);
  }
  if (queued_bytes_ + outgoing.bytes.size() > kQueuedBytesMax) {
    return base::fail(ErrorCode::overloaded, "the peer does not read: ", queued_bytes_,
                      " bytes wait for it");
  }
  outgoing.bytes += '\n';
  queued_bytes_ += outgoing.bytes.size();
  outgoing_.push_back(std::move(outgoing));
  return outgoing_.size() == 1 ? flush() : Result<void>{};
}

Result<void> JsonLines::flush() {
  while (!outgoing_.empty()) {
    Outgoing& first = outgoing_.front();
    std::vector<int> numbers;
    std::ranges::transform(first.fds, std::back_inserter(numbers), &base::Fd::get);
    const auto sent = base::sys::send_some_with_fds(
        socket_.get(), std::string_view(first.bytes).substr(first.sent), numbers);
    if (!sent && sent.error().errno_value == EAGAIN) {
      loop_.watch(socket_.get(), EventLoop::Direction::write, [this] { (void)flush(); });
      return {};
    }
    if (!sent) {
      // The reader of this connection meets the same end; until then every send says so.
      const int number = sent.error().errno_value;
      broken_ = number == EPIPE || number == ECONNRESET
                    ? Error{.code = ErrorCode::connection_closed,
                            .message = "the peer closed the connection"}
                    : sent.error();
      return std::unexpected(*broken_);
    }
    first.fds.clear();
    first.sent += *sent;
    queued_bytes_ -= *sent;
    if (first.sent == first.bytes.size()) {
      outgoing_.pop_front();
    }
  }
  return {};
}

void JsonLines::close() {
  if (socket_) {
    loop_.forget(socket_.get());
    socket_.reset();
  }
}

}  // namespace net
