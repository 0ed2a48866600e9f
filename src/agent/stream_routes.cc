#include "agent/stream_routes.h"

#include <algorithm>
#include <array>

#include "agent/answers.h"
#include "agent/endpoint.h"
#include "agent/program_stream.h"
#include "base/counted.h"
#include "base/host.h"
#include "base/log.h"
#include "net/stream_pump.h"
#include "wire/json.h"

namespace agent {
namespace {

using net::Deadline;
using wire::http::Request;

// The end of a peer is told by its connection, never by this.
constexpr base::Milliseconds kStreamPatience{std::chrono::hours(24 * 7)};
constexpr size_t kDropBytes = 1024;

std::unexpected<base::Error> taken_over() {
  return base::fail(ErrorCode::connection_closed, "the connection was a stream's");
}

Result<std::string> text_parameter(const Request& request, std::string_view name) {
  ASSIGN_OR_RETURN(const auto text, request.parameter(name));
  if (text && text->contains('\0')) {
    return base::fail_field(name, "'", name, "' holds NUL");
  }
  return text.value_or("");
}

// `if_absent`: what it is where it is not given, or given as 0.
Result<uint16_t> port_parameter(const Request& request, std::optional<uint16_t> if_absent) {
  ASSIGN_OR_RETURN(const auto text, request.parameter("port"));
  const auto port = !text || *text == "0" ? if_absent : base::parse_port(*text);
  if (!port) {
    return base::fail_field("port", "'port' must be a number from 1 to 65535");
  }
  return *port;
}

Result<Identity> user_parameter(Agent& agent, const Request& request) {
  ASSIGN_OR_RETURN(const auto user, request.parameter("user"));
  return agent.accounts.find(user.value_or(agent.config.user));
}

std::string place_json(const HostAddress& address) {
  std::string out = "\"host\":";
  base::append_json_string(out, address.text());
  return base::cat(out, ",\"port\":", address.port());
}

// 101, and bytes both ways until both are at their end.
Task<Result<void>> join(StreamCall call, base::Fd socket) {
  net::Stream inner(call.agent.loop, std::move(socket));
  CO_RETURN_IF_ERROR(co_await switch_to_stream(call.stream));
  co_await net::pump_both({.stream = call.stream, .read_ahead = call.reader.take_buffered()},
                          {.stream = inner, .read_ahead = {}}, net::HalfClose::passed_on,
                          kStreamPatience);
  co_return taken_over();
}

Task<Result<void>> to_tcp(StreamCall call) {
  CO_ASSIGN_OR_RETURN(std::string host, text_parameter(call.request, "host"));
  CO_ASSIGN_OR_RETURN(const uint16_t port, port_parameter(call.request, std::nullopt));
  CO_ASSIGN_OR_RETURN(
      base::Fd socket,
      co_await connect_tcp(call.agent.loop, host.empty() ? "localhost" : std::move(host), port));
  co_return co_await join(call, std::move(socket));
}

Task<Result<void>> to_socket(StreamCall call) {
  CO_ASSIGN_OR_RETURN(std::string path, text_parameter(call.request, "path"));
  CO_ASSIGN_OR_RETURN(Identity identity, user_parameter(call.agent, call.request));
  if (!path.starts_with('/')) {
    co_return base::fail_field("path", "'path' must be absolute");
  }
  CO_ASSIGN_OR_RETURN(base::Fd socket, co_await connect_socket(call.agent.loop, std::move(path),
                                                               std::move(identity)));
  co_return co_await join(call, std::move(socket));
}

// A line for each connection, until the client or the listener ends.
Task<void> tell_connections(net::Stream& client, Listener& listener, net::TaskGroup& both) {
  for (;;) {
    const auto number = co_await listener.accept();
    if (!number) {
      break;
    }
    const std::string from =
        listener.path().empty()
            ? base::cat(",", place_json(peer_address(listener.waiting(*number))))
            : std::string();
    const auto told = co_await client.write_all(base::cat("{\"connection\":", *number, from, "}\n"),
                                                kAnswerPatience);
    if (!told) {
      break;
    }
  }
  both.cancel();
}

Task<void> wait_for_end(net::Stream& client, net::TaskGroup& both) {
  std::array<char, kDropBytes> dropped;
  for (;;) {
    const auto size = co_await client.read_some(dropped, Deadline::after(kStreamPatience));
    if (!size || *size == 0) {
      break;
    }
  }
  both.cancel();
}

Task<Result<void>> listen(StreamCall call) {
  CO_ASSIGN_OR_RETURN(const auto host, call.request.parameter("host"));
  CO_ASSIGN_OR_RETURN(const uint16_t port, port_parameter(call.request, 0));
  CO_ASSIGN_OR_RETURN(std::string path, text_parameter(call.request, "path"));
  CO_ASSIGN_OR_RETURN(const Identity identity, user_parameter(call.agent, call.request));
  if (!path.empty() && (!path.starts_with('/') || host || port != 0)) {
    co_return base::fail_field("path", "'path' must be absolute, and alone");
  }
  CO_ASSIGN_OR_RETURN(base::Fd socket, path.empty()
                                           ? listen_tcp(host.value_or("127.0.0.1"), port, identity)
                                           : listen_socket(path, identity));
  CO_ASSIGN_OR_RETURN(const auto held,
                      Listeners::Held::add(call.streams.listeners, call.agent.loop,
                                           std::move(socket), std::move(path), identity));
  Listener& listener = held.listener();
  std::string place;
  if (listener.path().empty()) {
    place = place_json(local_address(listener.socket()));
  } else {
    place = "\"path\":";
    base::append_json_string(place, listener.path());
  }
  CO_RETURN_IF_ERROR(co_await switch_to_stream(call.stream));
  CO_RETURN_IF_ERROR(co_await call.stream.write_all(
      base::cat("{\"listener\":\"", held.name(), "\",", place, "}\n"), kAnswerPatience));
  net::TaskGroup both(call.agent.loop, co_await net::current_cancellation());
  both.spawn(tell_connections(call.stream, listener, both));
  both.spawn(wait_for_end(call.stream, both));
  co_await both.join();
  co_return taken_over();
}

Task<Result<void>> accept(StreamCall call) {
  CO_ASSIGN_OR_RETURN(const std::string name, text_parameter(call.request, "listener"));
  CO_ASSIGN_OR_RETURN(const std::string number, text_parameter(call.request, "connection"));
  Listener* listener = call.streams.listeners.find(name);
  auto socket = listener == nullptr
                    ? std::nullopt
                    : listener->take(base::parse_number<uint64_t>(number).value_or(0));
  if (!socket) {
    co_return base::fail(ErrorCode::not_found, "no such connection waits there");
  }
  co_return co_await join(call, std::move(*socket));
}

Task<Result<void>> helper(StreamCall call) {
  return run_helper_stream(call.agent, call.stream, call.reader, call.request);
}

struct Row {
  std::string_view method;
  std::string_view path;
  Task<Result<void>> (*handler)(StreamCall);
};
constexpr Row kRows[] = {
    {"GET", "/streams/tcp", to_tcp},     {"GET", "/streams/unix", to_socket},
    {"GET", "/streams/listen", listen},  {"GET", "/streams/accept", accept},
    {"POST", "/streams/helper", helper},
};

}  // namespace

bool is_stream_route(std::string_view path) {
  return std::ranges::find(kRows, path, &Row::path) != std::end(kRows);
}

Task<Result<void>> serve_stream_route(StreamCall call) {
  const auto* row = std::ranges::find(kRows, call.request.path, &Row::path);
  if (row->method != call.request.method) {
    co_return base::fail(ErrorCode::method_not_allowed, call.request.method, " is not allowed on ",
                         call.request.path);
  }
  const std::string* upgrade = call.request.find("upgrade");
  if (upgrade == nullptr || !base::equals_ignoring_case(*upgrade, kStreamProtocol)) {
    co_return base::fail(ErrorCode::malformed, "this route needs 'Upgrade: ", kStreamProtocol, "'");
  }
  if (call.streams.open >= kStreamsMax) {
    co_return base::fail(ErrorCode::overloaded, "there are ", kStreamsMax, " streams already");
  }
  const base::Counted counted(call.streams.open);
  co_return co_await row->handler(call);
}

}  // namespace agent
