#include "agent/server.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>

#include "agent/file_read.h"
#include "agent/file_write.h"
#include "agent/run.h"
#include "wire/json.h"

namespace agent {
namespace {

using net::Deadline;
using wire::http::HeadBuilder;
using wire::http::Request;

constexpr base::Milliseconds kHeadPatience{30'000};
constexpr base::Milliseconds kBodyPatience{120'000};
constexpr base::Milliseconds kWritePatience{60'000};
constexpr base::Milliseconds kDescriptorPause{100};
constexpr size_t kRunBodyBytesMax = 12 * 1024 * 1024;
// What is read and dropped of a refused body so that the connection lives on.
constexpr size_t kDrainBytesMax = 4 * 1024 * 1024;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Documented routes that are not built yet.
bool is_planned(const Request& request) {
  constexpr std::string_view kPlanned[] = {"/exec", "/sessions", "/terminal", "/files/"};
  return std::ranges::any_of(
             kPlanned, [&](std::string_view prefix) { return request.path.starts_with(prefix); }) ||
         (request.path == "/files" && request.method == "DELETE");
}

bool connection_is_lost(ErrorCode code) {
  return code == ErrorCode::connection_closed || code == ErrorCode::cancelled ||
         code == ErrorCode::deadline_exceeded;
}

Task<Result<void>> write_json(net::Stream& stream, std::string body) {
  const std::string head = HeadBuilder::response(200)
                               .add("content-type", "application/json")
                               .add_length(body.size())
                               .finish();
  co_return co_await stream.write_all(head, body, kWritePatience);
}

Task<Result<void>> write_error(net::Stream& stream, base::Error error, std::string request_id,
                               bool head_only, bool keep) {
  if (error.code == ErrorCode::io) {
    error.code = ErrorCode::agent_failed;
  }
  const std::string body = wire::json::error_body(error, request_id);
  HeadBuilder head = HeadBuilder::response(base::http_status(error.code));
  head.add("content-type", "application/json").add_length(body.size());
  if (error.code == ErrorCode::overloaded) {
    head.add("retry-after", "1");
  }
  if (error.code == ErrorCode::range_not_satisfiable) {
    for (const auto& [key, value] : error.details) {
      if (key == "size") {
        head.add("content-range", base::cat("bytes */", value));
      }
    }
  }
  if (!keep) {
    head.add("connection", "close");
  }
  co_return co_await stream.write_all(head.finish(), head_only ? "" : body, kWritePatience);
}

}  // namespace

Server::Server(Agent& agent, base::Fd listener)
    : agent_(agent), listener_(std::move(listener)), connections_(agent.loop) {}

Server::~Server() { agent_.loop.forget(listener_.get()); }

Task<void> Server::serve() {
  for (;;) {
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
  if (request.path == "/files" && (get || request.method == "HEAD")) {
    co_return co_await read_file(agent_, stream, request);
  }
  if (request.path == "/files" && request.method == "PUT") {
    co_return co_await write_file(agent_, stream, reader, request);
  }
  if (request.path == "/healthz" && get) {
    co_return co_await write_json(stream, "{\"version\":\"" SANDBOX_VERSION "\"}");
  }
  if (request.path == "/activity" && get) {
    co_return co_await write_json(
        stream, base::cat("{\"running_commands\":", agent_.running_commands, ",\"sessions\":0}"));
  }
  if (is_planned(request)) {
    co_return base::fail(ErrorCode::not_supported, request.method, " ", request.path,
                         " is not supported yet");
  }
  constexpr std::string_view kKnown[] = {"/run", "/files", "/healthz", "/activity"};
  if (std::ranges::find(kKnown, request.path) != std::end(kKnown)) {
    co_return base::fail(ErrorCode::method_not_allowed, request.method, " is not allowed on ",
                         request.path);
  }
  co_return base::fail(ErrorCode::not_found, "there is no route ", request.path);
}

Task<Result<void>> Server::run(net::Stream& stream, net::HttpReader& reader,
                               const Request& request) {
  if (request.expect_continue && request.content_length <= kRunBodyBytesMax) {
    CO_RETURN_IF_ERROR(co_await stream.write_all(kContinue, kWritePatience));
  }
  CO_ASSIGN_OR_RETURN(std::string body,
                      co_await reader.read_whole_body(kRunBodyBytesMax, kBodyPatience));
  const std::string* id = request.find("x-request-id");
  co_return co_await run_command(agent_, stream, std::move(body), id == nullptr ? "" : *id);
}

}  // namespace agent
