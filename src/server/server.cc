#include "server/server.h"

#include <sys/socket.h>

#include "wire/json.h"

namespace server {
namespace {

// How often a stopping server looks whether its last request has ended.
constexpr base::Milliseconds kStopLook{20};

}  // namespace

Result<uint16_t> Server::listen(const std::string& address) {
  ASSIGN_OR_RETURN(auto socket, net::listen_tcp(address, kBacklog));
  listener_.emplace(application_.loop, std::move(socket));
  group_.spawn(accept_all());
  return listener_->port();
}

Task<void> Server::accept_all() {
  for (;;) {
    auto client = co_await listener_->accept();
    if (!client) {
      if (client.error().code != ErrorCode::cancelled) {
        application_.log.error("the listener failed", {{"error", client.error().message}});
      }
      co_return;
    }
    group_.spawn(serve(std::move(*client)));
  }
}

Task<void> Server::refuse(net::Stream& client, Error error) {
  const std::string id = base::new_id(application_.random, "req");
  const std::string body = wire::json::error_body(error, id);
  auto head = wire::http::HeadBuilder::response(base::http_status(error.code));
  head.add("x-request-id", id).add("content-type", "application/json");
  head.add("connection", "close").add_length(body.size());
  if (error.code == ErrorCode::overloaded) {
    head.add("retry-after", "1");
  }
  co_await client.write_all(head.finish(), body, kWritePatience);
}

Task<void> Server::serve(base::Fd fd) {
  net::Stream client(application_.loop, std::move(fd));
  if (connections_.size() >= kConnectionsMax) {
    co_await refuse(
        client,
        Error{.code = ErrorCode::overloaded, .message = "too many connections", .details = {}});
    co_return;
  }
  application_.metrics.connection_opened();
  Connection connection{.fd = client.fd()};
  const auto place = connections_.insert(connections_.end(), &connection);
  {
    net::HttpReader reader(client);
    bool more = true;
    while (more && !stopping_) {
      more = co_await serve_one(client, reader, connection);
    }
    // A body that nobody read makes the kernel reset the connection, and the client would lose
    // the answer: its rest is taken for a moment.
    if (!reader.body_finished() && client.is_open()) {
      client.shutdown_write();
      connection.idle = true;
      co_await reader.drain_body(kLingerBytesMax, kDrainPatience);
    }
  }
  connections_.erase(place);
  application_.metrics.connection_closed();
}

// One request; false when it was the connection's last.
Task<bool> Server::serve_one(net::Stream& client, net::HttpReader& reader, Connection& connection) {
  connection.idle = true;
  auto request = co_await reader.read_request(net::Deadline::after(kIdlePatience), kHeadPatience);
  connection.idle = false;
  if (!request) {
    const ErrorCode code = request.error().code;
    if (code == ErrorCode::malformed || code == ErrorCode::headers_too_large ||
        code == ErrorCode::request_timeout) {
      co_await refuse(client, std::move(request).error());
      client.shutdown_write();
      connection.idle = true;
      std::array<char, 4096> rest;
      co_await client.read_some(rest, net::Deadline::after(kDrainPatience));
    }
    co_return false;
  }
  if (!*request) {
    co_return false;
  }
  const auto began = std::chrono::steady_clock::now();
  Exchange exchange(client, reader, std::move(**request), base::new_id(application_.random, "req"));
  if (stopping_) {
    exchange.close_after();
  }
  connection.exchange = &exchange;
  const size_t route = co_await dispatch(exchange);
  connection.exchange = nullptr;
  finish(exchange, route, began);
  if (exchange.status() == 0 || !exchange.keep_alive()) {
    co_return false;
  }
  co_return co_await reader.drain_body(kDrainBytesMax, kDrainPatience);
}

Task<size_t> Server::dispatch(Exchange& exchange) {
  size_t route = SIZE_MAX;
  auto match = find_route(exchange.request().method, exchange.request().path);
  Result<void> done;
  if (match) {
    route = match->index;
    done = co_await handle(exchange, std::move(*match));
  } else {
    done = std::unexpected(std::move(match).error());
  }
  if (done) {
    co_return route;
  }
  if (exchange.status() != 0) {
    // A part of the answer is out: only the end of the connection can say that it is not whole.
    exchange.close_after();
    co_return route;
  }
  if (base::http_status(public_error(done.error()).code) == 500) {
    application_.log.error(
        "request failed", {{"request_id", exchange.request_id()}, {"error", done.error().message}});
  }
  if (const auto answered = co_await exchange.answer_error(std::move(done).error()); !answered) {
    exchange.close_after();
  }
  co_return route;
}

Task<Result<void>> Server::handle(Exchange& exchange, Match match) {
  const Route& route = *match.route;
  exchange.set_segments(std::move(match.segments));
  if (surface_ == Surface::metrics) {
    if (route.scope != service::Scope::metrics && route.pattern != "/healthz") {
      co_return base::fail(ErrorCode::not_found, "this listener serves /metrics only");
    }
  } else if (route.scope != service::Scope::open) {
    CO_ASSIGN_OR_RETURN(auto caller,
                        application_.access.authenticate(exchange.request().find("authorization")));
    if (!caller.may(route.scope)) {
      co_return base::fail(ErrorCode::forbidden, "the token does not allow this");
    }
    exchange.set_caller(std::move(caller));
  }
  co_return co_await route.handler(application_, exchange);
}

void Server::finish(const Exchange& exchange, size_t route, base::SteadyTime began) {
  const auto took = std::chrono::steady_clock::now() - began;
  application_.metrics.count(route, exchange.status(), took);
  const size_t built = routes().size();
  const std::string_view pattern = route < built ? routes()[route].pattern : "other";
  const bool is_probe = pattern == "/healthz" || pattern == "/readyz" || pattern == "/metrics";
  const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  const std::initializer_list<base::LogField> fields{
      {"method", exchange.request().method}, {"route", pattern},
      {"status", exchange.status()},         {"us", us},
      {"request_id", exchange.request_id()}, {"team", exchange.caller().team}};
  if (is_probe) {
    application_.log.debug("request", fields);
  } else {
    application_.log.info("request", fields);
  }
}

Task<void> Server::stop(net::Deadline deadline) {
  stopping_ = true;
  for (const Connection* connection : connections_) {
    if (connection->idle ||
        (connection->exchange != nullptr && connection->exchange->is_endless())) {
      ::shutdown(connection->fd, SHUT_RD);
    }
  }
  while (!connections_.empty() && std::chrono::steady_clock::now() < deadline.time()) {
    co_await application_.loop.sleep_until(net::Deadline::after(kStopLook));
  }
  group_.cancel();
  co_await group_.join();
  if (listener_) {
    listener_->close();
  }
}

}  // namespace server
