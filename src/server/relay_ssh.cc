#include "server/relay_ssh.h"

#include <poll.h>

#include <memory>

#include "net/stream_pump.h"
#include "net/task_group.h"
#include "server/agent_answer.h"
#include "server/audit_record.h"
#include "wire/websocket.h"

namespace server {
namespace {

using net::Deadline;
using wire::http::HeadBuilder;
using wire::http::Response;
using wire::websocket::Opcode;

// How often a front that may have closed its connection is looked after.
constexpr base::Milliseconds kGoneLook{500};
// One message of a tunnel's client; larger writes come in several.
constexpr size_t kMessageBytesMax = size_t{1024} * 1024;
constexpr size_t kTunnelReadBytes = size_t{32} * 1024;

// Both directions of the socket have ended, whatever waits in them.
bool is_closed(int fd) {
  pollfd asked{.fd = fd, .events = 0, .revents = 0};
  return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLHUP | POLLERR)) != 0;
}

// A direction that cannot be written to does not read, and would not see that its client has gone.
Task<void> end_when_gone(net::Stream& client, net::TaskGroup& both) {
  for (;;) {
    const auto wake = co_await client.loop().sleep_until(Deadline::after(kGoneLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    if (is_closed(client.fd())) {
      both.cancel();
      co_return;
    }
  }
}

Task<void> pump_while_there(net::StreamEnd client, net::StreamEnd agent, net::HalfClose half_close,
                            net::TaskGroup& both) {
  co_await net::pump_both(std::move(client), std::move(agent), half_close, kStreamPatience);
  both.cancel();
}

Task<Result<void>> relay(Exchange& exchange, AgentChannel& channel, const service::Live& live,
                         const Response& response, net::HalfClose half_close,
                         net::StreamTail* tail = nullptr) {
  if (response.status != kSwitchingProtocols) {
    co_return co_await relay_any_json(exchange, channel, live, response);
  }
  HeadBuilder head = exchange.start_head(kSwitchingProtocols);
  head.add("connection", "Upgrade").add("upgrade", "sandbox-stream");
  CO_RETURN_IF_ERROR(co_await exchange.switch_protocols(std::move(head)));
  net::TaskGroup both(exchange.client().loop(), co_await net::current_cancellation());
  both.spawn(end_when_gone(exchange.client(), both));
  both.spawn(pump_while_there(
      {.stream = exchange.client(), .read_ahead = exchange.reader().take_buffered()},
      {.stream = channel.stream(), .read_ahead = channel.reader().take_buffered(), .tail = tail},
      half_close, both));
  co_await both.join();
  co_return Result<void>{};
}

Task<Result<void>> relay_command(Exchange& exchange, AgentChannel& channel,
                                 const service::Live& live, const Response& response) {
  net::StreamTail tail;
  CO_RETURN_IF_ERROR(
      co_await relay(exchange, channel, live, response, net::HalfClose::ends_both, &tail));
  note_command_end(exchange, tail.bytes());
  co_return Result<void>{};
}

Task<Result<void>> relay_halves(Exchange& exchange, AgentChannel& channel,
                                const service::Live& live, const Response& response) {
  return relay(exchange, channel, live, response, net::HalfClose::passed_on);
}

// --- tunnels -------------------------------------------------------------------------------------

Task<Result<void>> send(net::Stream& client, Opcode opcode, std::string_view payload) {
  const wire::websocket::FrameHead head(opcode, payload.size());
  co_return co_await client.write_all(head.bytes(), payload, kStreamPatience);
}

// False: the client has closed, or breaks the protocol.
Task<bool> take_messages(net::Stream& front, wire::websocket::Decoder& decoder,
                         std::string_view bytes) {
  using Kind = wire::websocket::Event::Kind;
  while (!bytes.empty()) {
    const auto step = decoder.next(bytes);
    if (!step) {
      co_return false;
    }
    bytes.remove_prefix(step->consumed);
    if (!step->event) {
      continue;
    }
    if (step->event->kind == Kind::close || step->event->kind == Kind::text) {
      co_return false;
    }
    if (step->event->kind == Kind::binary) {
      const auto written = co_await front.write_all(step->event->payload, kStreamPatience);
      if (!written) {
        co_return false;
      }
    }
    // A pong would have to wait for its turn behind what the other direction writes; clients that
    // need to know that the server is there get its pings.
  }
  co_return true;
}

Task<void> pump_in(net::Stream& client, net::Stream& front, std::string early,
                   net::TaskGroup& both) {
  wire::websocket::Decoder decoder(wire::websocket::Role::server, kMessageBytesMax);
  const auto buffer = std::make_unique_for_overwrite<char[]>(kTunnelReadBytes);
  bool more = co_await take_messages(front, decoder, early);
  while (more) {
    const auto size = co_await client.read_some({buffer.get(), kTunnelReadBytes},
                                                Deadline::after(kStreamPatience));
    if (!size || *size == 0) {
      break;
    }
    more = co_await take_messages(front, decoder, {buffer.get(), *size});
  }
  both.cancel();
}

Task<void> pump_out(net::Stream& front, net::Stream& client, net::TaskGroup& both) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kTunnelReadBytes);
  for (;;) {
    const auto size = co_await front.read_some({buffer.get(), kTunnelReadBytes},
                                               Deadline::after(kStreamKeepAlive));
    if (!size && size.error().code == ErrorCode::deadline_exceeded) {
      const auto pinged = co_await send(client, Opcode::ping, "");
      if (!pinged) {
        break;
      }
      continue;
    }
    if (!size || *size == 0) {
      co_await send(client, Opcode::close,
                    wire::websocket::close_payload(wire::websocket::kCloseNormal, ""));
      break;
    }
    const auto sent = co_await send(client, Opcode::binary, {buffer.get(), *size});
    if (!sent) {
      break;
    }
  }
  both.cancel();
}

}  // namespace

Task<Result<void>> relay_ssh_stream(Application& application, Exchange& exchange, LivePtr live,
                                    SshStream stream) {
  HeadBuilder head = agent_head(exchange, stream.method, stream.target);
  head.add("connection", "Upgrade").add("upgrade", stream.upgrade);
  if (!stream.body.empty()) {
    head.add("content-type", "application/json").add_length(stream.body.size());
  }
  return ask_agent(application, exchange, std::move(live),
                   {.method = std::move(stream.method),
                    .head = head.finish(),
                    .body = std::move(stream.body),
                    .patience = kAgentPatience,
                    .client_cancels = false,
                    .upgrades = true},
                   stream.halves ? relay_halves : relay_command);
}

Task<void> pump_tunnel(Exchange& exchange, net::Stream& front) {
  net::Stream& client = exchange.client();
  net::TaskGroup both(client.loop(), co_await net::current_cancellation());
  both.spawn(pump_in(client, front, exchange.reader().take_buffered(), both));
  both.spawn(pump_out(front, client, both));
  co_await both.join();
}

}  // namespace server
