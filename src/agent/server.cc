#include "agent/server.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "agent/answers.h"
#include "agent/attach.h"
#include "agent/command_channel.h"
#include "agent/command_stream.h"
#include "agent/credentials.h"
#include "agent/exec.h"
#include "agent/file_routes.h"
#include "agent/run.h"
#include "agent/service_routes.h"
#include "agent/session_routes.h"
#include "wire/json.h"

namespace agent {
namespace {

using net::Deadline;
using wire::http::Request;

constexpr base::Milliseconds kHeadPatience{30'000};
constexpr base::Milliseconds kDescriptorPause{100};
constexpr size_t kRunBodyBytesMax = size_t{12} * 1024 * 1024;
// What is read and dropped of a refused body so that the connection lives on.
constexpr size_t kDrainBytesMax = size_t{4} * 1024 * 1024;

}  // namespace

Server::Server(Agent& agent, base::Fd listener)
    : agent_(agent), listener_(std::move(listener)), sessions_(agent), connections_(agent.loop) {
  if (agent.config.service) {
    service_.emplace(agent, sessions_);
  }
}

Server::~Server() { agent_.loop.forget(listener_.get()); }

// Once.
void Server::start_entrypoint() {
  if (!agent_.config.entrypoint.empty() && !std::exchange(entrypoint_started_, true)) {
    SessionRequest request;
    request.argv = agent_.config.entrypoint;
    request.input = false;
    sessions_.start_own(std::move(request));
  }
}

Task<void> Server::serve() {
  if (!agent_.config.await_credentials) {
    start_entrypoint();
  }
  if (!listener_) {
    co_await agent_.loop.sleep_until(Deadline::never());
  }
  while (listener_) {
    base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      connections_.spawn(serve_connection(std::move(socket)));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) {
      continue;
    }
    net::EventLoop::Wake wake{};
    if (errno == EAGAIN) {
      wake = co_await agent_.loop.wait(listener_.get(), net::EventLoop::Direction::read,
                                       Deadline::never());
    } else {
      // No descriptors: those who wait in the backlog are served once some are free.
      wake = co_await agent_.loop.sleep_until(Deadline::after(kDescriptorPause));
    }
    if (wake == net::EventLoop::Wake::cancelled) {
      break;
    }
  }
  connections_.cancel();
  co_await connections_.join();
  if (service_) {
    co_await service_->end();
  }
  co_await sessions_.stop();
}

Task<void> Server::serve_connection(base::Fd socket) {
  net::Stream stream(agent_.loop, std::move(socket));
  if (connections_.size() > kConnectionsMax) {
    base::Error error{.code = ErrorCode::overloaded,
                      .message = "the agent has too many connections"};
    co_await write_error(stream, std::move(error), "", false, false);
    co_return;
  }
  net::HttpReader reader(stream);
  for (bool keep = true; keep;) {
    const auto request = co_await reader.read_request(Deadline::never(), kHeadPatience);
    if (!request && !connection_is_lost(request.error().code)) {
      co_await write_error(stream, request.error(), "", false, false);
    }
    if (!request || !*request) {
      break;
    }
    keep = co_await serve_request(stream, reader, **request);
    agent_.idle_memory.note_activity();
  }
}

Task<bool> Server::serve_request(net::Stream& stream, net::HttpReader& reader,
                                 const Request& request) {
  const auto result = co_await dispatch(stream, reader, request);
  if (!result && connection_is_lost(result.error().code)) {
    co_return false;
  }
  // A client that waits for "100 Continue" and was refused may or may not send its body.
  const bool unclear = request.expect_continue && !reader.body_finished();
  bool keep = request.keep_alive && !unclear && reader.decoder().left() <= kDrainBytesMax;
  if (!result) {
    const std::string* id = request.find("x-request-id");
    const auto written = co_await write_error(stream, result.error(), id == nullptr ? "" : *id,
                                              request.method == "HEAD", keep);
    keep = keep && written;
  }
  if (!reader.body_finished()) {
    const bool drained = co_await reader.drain_body(kDrainBytesMax, kHeadPatience);
    keep = keep && drained;
  }
  co_return keep;
}

Task<Result<void>> Server::dispatch(net::Stream& stream, net::HttpReader& reader,
                                    const Request& request) {
  const bool get = request.method == "GET";
  if (request.path == "/run" && request.method == "POST") {
    co_return co_await run(stream, reader, request);
  }
  if (request.path == "/exec" && request.method == "POST") {
    co_return co_await exec_command(agent_, stream, reader, request);
  }
  if (request.path == "/stream" && request.method == "POST") {
    CO_ASSIGN_OR_RETURN(std::string body,
                        co_await read_body(stream, reader, request, kRunBodyBytesMax));
    co_return co_await stream_command(agent_, stream, std::move(body));
  }
  if (request.path == "/command" && request.method == "POST") {
    co_return co_await connect_command(stream, reader, request);
  }
  if (is_session_route(request.path)) {
    co_return co_await serve_session_route({.agent = agent_,
                                            .sessions = sessions_,
                                            .stream = stream,
                                            .reader = reader,
                                            .request = request});
  }
  if (is_stream_route(request.path)) {
    co_return co_await serve_stream_route({.agent = agent_,
                                           .streams = streams_,
                                           .stream = stream,
                                           .reader = reader,
                                           .request = request});
  }
  if (request.path == "/files" || request.path.starts_with("/files/")) {
    co_return co_await serve_files(agent_, stream, reader, request);
  }
  if (is_service_route(request.path)) {
    if (!service_) {
      co_return base::fail(ErrorCode::not_found, "the container has no command of its own");
    }
    co_return co_await serve_service_route(*service_, stream, request);
  }
  if (request.path == "/credentials" && request.method == "PUT") {
    auto put = co_await put_credentials(agent_, stream, reader, request);
    start_entrypoint();
    co_return put;
  }
  if (request.path == "/healthz" && get) {
    co_return co_await write_json(stream, 200, "{\"version\":\"" SANDBOX_VERSION "\"}");
  }
  if (request.path == "/activity" && get) {
    co_return co_await write_json(stream, 200,
                                  base::cat("{\"running_commands\":", agent_.running_commands,
                                            ",\"sessions\":", sessions_.running(), "}"));
  }
  constexpr std::string_view kKnown[] = {"/run",     "/exec",     "/stream",     "/command",
                                         "/healthz", "/activity", "/credentials"};
  if (std::ranges::find(kKnown, request.path) != std::end(kKnown)) {
    co_return base::fail(ErrorCode::method_not_allowed, request.method, " is not allowed on ",
                         request.path);
  }
  co_return base::fail(ErrorCode::not_found, "there is no route ", request.path);
}

Task<Result<void>> Server::connect_command(net::Stream& stream, net::HttpReader& reader,
                                           const Request& request) {
  if (!wants_websocket(request)) {
    co_return base::fail(ErrorCode::malformed, "this route needs 'Upgrade: websocket'");
  }
  CO_ASSIGN_OR_RETURN(std::string body,
                      co_await read_body(stream, reader, request, kRunBodyBytesMax));
  CO_ASSIGN_OR_RETURN(SessionRequest command, parse_channel_request(agent_, body));
  body = std::string();
  co_return co_await run_command_channel(agent_, stream, reader, std::move(command));
}

Task<Result<void>> Server::run(net::Stream& stream, net::HttpReader& reader,
                               const Request& request) {
  CO_ASSIGN_OR_RETURN(std::string body,
                      co_await read_body(stream, reader, request, kRunBodyBytesMax));
  const std::string* id = request.find("x-request-id");
  co_return co_await run_command(agent_, stream, std::move(body), id == nullptr ? "" : *id);
}

}  // namespace agent
