#include "ssh/pump.h"

namespace ssh {
namespace {

using net::Deadline;

constexpr size_t kReadBytes = size_t{64} * 1024;
// Either side may stand still as long as its connection lives.
constexpr base::Milliseconds kPatience{std::chrono::hours(24 * 7)};

struct Directions {
  bool input_ended = false;
  bool output_ended = false;
};

Task<void> pass_input(Channel& channel, net::Stream& stream, Directions& directions,
                      net::TaskGroup& both) {
  for (;;) {
    const auto bytes = co_await channel.receive();
    if (!bytes) {
      break;
    }
    if (bytes->empty()) {
      stream.shutdown_write();
      break;
    }
    const auto written = co_await stream.write_all(*bytes, kPatience);
    if (!written) {
      break;  // it takes no more, and may still have something to say
    }
  }
  directions.input_ended = true;
  // A client that closes its channel is gone, whatever the other side still wants to say.
  while (!channel.closed() && !directions.output_ended) {
    const auto wake = co_await channel.transport().activity().wait(Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
  both.cancel();
}

Task<void> pass_output(Channel& channel, net::Stream& stream, std::string early, EndOfOutput end,
                       Directions& directions, net::TaskGroup& both) {
  auto sent = co_await channel.send(early);
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  while (sent) {
    const auto size = co_await stream.read_some({buffer.get(), kReadBytes}, Deadline::never());
    if (!size || *size == 0) {
      break;
    }
    sent = co_await channel.send({buffer.get(), *size});
  }
  channel.send_end();
  directions.output_ended = true;
  if (end == EndOfOutput::ends_all || directions.input_ended || !sent) {
    both.cancel();
  }
}

}  // namespace

Task<void> pump(Channel& channel, GatewayStream stream, EndOfOutput end) {
  Directions directions;
  net::TaskGroup both(channel.transport().loop(), co_await net::current_cancellation());
  both.spawn(pass_input(channel, *stream.stream, directions, both));
  both.spawn(pass_output(channel, *stream.stream, std::move(stream.early), end, directions, both));
  co_await both.join();
}

}  // namespace ssh
