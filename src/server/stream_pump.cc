#include "server/stream_pump.h"

#include <sys/ioctl.h>

#include <array>

#include "net/task_group.h"
#include "server/limits.h"

namespace server {
namespace {

using base::Result;
using net::Task;

constexpr size_t kCopyBytes = 16 * 1024;

// What is there, through a buffer that lives as long as this takes; 0 at the end.
Task<Result<size_t>> copy_some(net::Stream& from, net::Stream& to) {
  std::array<char, kCopyBytes> buffer;
  CO_ASSIGN_OR_RETURN(const size_t size,
                      co_await from.read_some(buffer, net::Deadline::after(kStreamPatience)));
  CO_RETURN_IF_ERROR(co_await to.write_all(std::string_view(buffer.data(), size), kStreamPatience));
  co_return size;
}

Task<Result<void>> pump(net::Stream& from, net::Stream& to, std::string_view read_ahead) {
  CO_RETURN_IF_ERROR(co_await to.write_all(read_ahead, kStreamPatience));
  net::SplicePipe pipe;
  for (;;) {
    CO_RETURN_IF_ERROR(co_await from.wait_readable(net::Deadline::after(kStreamPatience)));
    int waiting = 0;
    ::ioctl(from.fd(), FIONREAD, &waiting);
    if (static_cast<uint64_t>(waiting) > kSpliceBytesMin) {
      CO_RETURN_IF_ERROR(
          co_await pipe.move(from, to, static_cast<uint64_t>(waiting), kStreamPatience));
      continue;
    }
    CO_ASSIGN_OR_RETURN(const size_t size, co_await copy_some(from, to));
    if (size == 0) {
      co_return Result<void>{};
    }
  }
}

Task<void> pump_until_one_ends(net::Stream& from, net::Stream& to, std::string read_ahead,
                               net::TaskGroup& both) {
  co_await pump(from, to, read_ahead);
  both.cancel();
}

Task<void> pump_half(net::Stream& from, net::Stream& to, std::string read_ahead,
                     net::TaskGroup& both) {
  const auto ended = co_await pump(from, to, read_ahead);
  if (ended) {
    to.shutdown_write();
  } else {
    both.cancel();
  }
}

}  // namespace

Task<void> pump_both(StreamEnd client, StreamEnd agent) {
  net::Cancellation* const parent = co_await net::current_cancellation();
  net::TaskGroup both(client.stream.loop(), parent);
  both.spawn(pump_until_one_ends(client.stream, agent.stream, std::move(client.read_ahead), both));
  both.spawn(pump_until_one_ends(agent.stream, client.stream, std::move(agent.read_ahead), both));
  co_await both.join();
}

Task<void> pump_halves(StreamEnd client, StreamEnd agent) {
  net::Cancellation* const parent = co_await net::current_cancellation();
  net::TaskGroup both(client.stream.loop(), parent);
  both.spawn(pump_half(client.stream, agent.stream, std::move(client.read_ahead), both));
  both.spawn(pump_half(agent.stream, client.stream, std::move(agent.read_ahead), both));
  co_await both.join();
}

}  // namespace server
