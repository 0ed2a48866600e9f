#include "net/stream_pump.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>

#include "net/task_group.h"

namespace net {
namespace {

using base::Result;

constexpr size_t kCopyBytes = size_t{16} * 1024;
// What waits beyond it is moved inside the kernel.
constexpr int kSpliceBytesMin = 64 * 1024;

// What is there, through a buffer that lives as long as this takes; 0 at the end.
Task<Result<size_t>> copy_some(Stream& from, Stream& to, StreamTail* tail,
                               base::Milliseconds patience) {
  std::array<char, kCopyBytes> buffer;
  CO_ASSIGN_OR_RETURN(const size_t size,
                      co_await from.read_some(buffer, Deadline::after(patience)));
  if (tail != nullptr) {
    tail->add({buffer.data(), size});
  }
  CO_RETURN_IF_ERROR(co_await to.write_all(std::string_view(buffer.data(), size), patience));
  co_return size;
}

struct Pair {
  HalfClose half_close;
  base::Milliseconds patience;
  TaskGroup group;
  bool is_half_closed = false;
};

// Returns when there is something to read, or the end.
Task<Result<void>> wait_for_bytes(Stream& from, const Pair& pair) {
  const Deadline last = Deadline::after(pair.patience);
  for (;;) {
    const bool was_half_closed = pair.is_half_closed;
    const Deadline next = Deadline::after(kHalfOpenPatience);
    const bool may_look_again =
        pair.half_close == HalfClose::passed_on && next.time() < last.time();
    auto waited = co_await from.wait_readable(may_look_again ? next : last);
    const bool is_late = !waited && waited.error().code == base::ErrorCode::deadline_exceeded;
    if (!is_late || !may_look_again || was_half_closed) {
      co_return waited;
    }
  }
}

Task<Result<void>> pump(const StreamEnd& end, Stream& to, const Pair& pair) {
  Stream& from = end.stream;
  if (end.tail != nullptr) {
    end.tail->add(end.read_ahead);
  }
  CO_RETURN_IF_ERROR(co_await to.write_all(end.read_ahead, pair.patience));
  // What may be the stream's end is looked at, so it does not stay inside the kernel.
  const int kept = end.tail == nullptr ? 0 : static_cast<int>(StreamTail::kBytesMax);
  SplicePipe pipe;
  for (;;) {
    CO_RETURN_IF_ERROR(co_await wait_for_bytes(from, pair));
    int waiting = 0;
    ::ioctl(from.fd(), FIONREAD, &waiting);
    waiting -= kept;
    if (waiting > kSpliceBytesMin) {
      CO_RETURN_IF_ERROR(
          co_await pipe.move(from, to, static_cast<uint64_t>(waiting), pair.patience));
      continue;
    }
    CO_ASSIGN_OR_RETURN(const size_t size, co_await copy_some(from, to, end.tail, pair.patience));
    if (size == 0) {
      co_return Result<void>{};
    }
  }
}

Task<void> pump_to_the_end(StreamEnd from, Stream& to, Pair& pair) {
  const auto done = co_await pump(from, to, pair);
  if (!done || pair.half_close == HalfClose::ends_both) {
    pair.group.cancel();
    co_return;
  }
  pair.is_half_closed = true;
  to.shutdown_write();
}

}  // namespace

void StreamTail::add(std::string_view bytes) {
  bytes_ += bytes.substr(bytes.size() - std::min(bytes.size(), kBytesMax));
  bytes_.erase(0, bytes_.size() - std::min(bytes_.size(), kBytesMax));
}

Task<void> pump_both(StreamEnd one, StreamEnd other, HalfClose half_close,
                     base::Milliseconds patience) {
  Cancellation* const parent = co_await current_cancellation();
  Pair pair{.half_close = half_close,
            .patience = patience,
            .group = TaskGroup(one.stream.loop(), parent)};
  Stream& first = one.stream;
  Stream& second = other.stream;
  pair.group.spawn(pump_to_the_end(std::move(one), second, pair));
  pair.group.spawn(pump_to_the_end(std::move(other), first, pair));
  co_await pair.group.join();
}

}  // namespace net
