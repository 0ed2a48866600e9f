#include "server/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "server/audit_record.h"
#include "server/gate.h"
#include "server/session_cookie.h"
#include "server/ssh_routes.h"
#include "server/websocket.h"
#include "wire/json.h"

namespace server {
namespace {

// How often a stopping server looks whether its last request has ended.
constexpr base::Milliseconds kStopLook{20};

}  // namespace

Result<uint16_t> Server::listen(const std::string& address) {
  ASSIGN_OR_RETURN(auto socket, net::listen_tcp(address, kBacklog));
  listen(std::move(socket));
  return listener_->port();
}

void Server::listen_inside(base::Fd socket) {
  if (!stopped_ && !inner_listener_) {
    inner_listener_.emplace(application_.loop, std::move(socket));
    group_.spawn(accept_all(*inner_listener_, true));
  }
}

Task<void> Server::serve_inside(base::Fd fd, std::string remote) {
  const auto known = inner_connections_.find(remote);
  const size_t held = known == inner_connections_.end() ? 0 : known->second;
  if (held >= kInnerConnectionsMax || inner_ >= kConnectionsMax / 2) {
    net::Stream client(application_.loop, std::move(fd));
    co_await refuse(client, Error{.code = ErrorCode::overloaded,
                                  .message = "too many connections of sandboxes",
                                  .details = {}});
    co_return;
  }
  ++inner_connections_[remote];
  ++inner_;
  co_await serve(std::move(fd), remote);
  --inner_;
  if (--inner_connections_[remote] == 0) {
    inner_connections_.erase(remote);
  }
}

Task<void> Server::accept_all(net::Listener& listener, bool is_inside) {
  for (;;) {
    auto client = co_await listener.accept();
    if (!client) {
      if (client.error().code != ErrorCode::cancelled) {
        application_.log.error("the listener failed", {{"error", client.error().message}});
      }
      co_return;
    }
    std::string remote = net::peer_address(client->get());
    if (is_inside) {
      group_.spawn(serve_inside(std::move(*client), std::move(remote)));
    } else {
      group_.spawn(serve(std::move(*client), std::move(remote)));
    }
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

Task<void> Server::serve(base::Fd fd, std::string remote) {
  net::Stream client(application_.loop, std::move(fd));
  if (connections_.size() >= kConnectionsMax) {
    co_await refuse(
        client,
        Error{.code = ErrorCode::overloaded, .message = "too many connections", .details = {}});
    co_return;
  }
  application_.metrics.connection_opened();
  Connection connection{.fd = client.fd(), .remote = std::move(remote)};
  const auto place = connections_.insert(connections_.end(), &connection);
  {
    net::HttpReader reader(client);
    bool more = true;
    do {
      more = co_await serve_one(client, reader, connection);
    } while (more && !stopping_);
    // A body that nobody read makes the kernel reset the connection, and the client would lose
    // the answer: its rest is taken for a moment.
    if (!reader.body_finished() && client.is_open()) {
      client.shutdown_write();
      connection.idle = !stopping_;
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
  connection.is_new = false;
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
  Exchange exchange(client, reader, application_.coders, std::move(**request),
                    base::new_id(application_.random, "req"));
  exchange.set_remote(connection.remote);
  if (stopping_ || application_.draining) {
    exchange.close_after();
  }
  connection.began = began;
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
  const wire::http::Request& request = exchange.request();
  auto match = surface_ == Surface::ssh ? find_ssh_route(request.method, request.path)
                                        : find_route(request.method, request.path);
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
  note_error(exchange, done.error());
  if (exchange.status() != 0) {
    // A part of the answer is out: only the end of the connection can say that it is not whole.
    exchange.close_after();
    co_return route;
  }
  if (base::http_status(public_error(done.error()).code) == 500 || is_of_store(done.error())) {
    application_.log.error(
        "request failed", {{"request_id", exchange.request_id()}, {"error", done.error().message}});
  }
  if (const auto answered = co_await exchange.answer_error(std::move(done).error()); !answered) {
    exchange.close_after();
  }
  co_return route;
}

Task<void> Server::enter_team(Exchange& exchange, const Route& route) {
  if (!exchange.caller().is_in_several()) {
    co_return;
  }
  if (route.pattern.starts_with("/teams/{team}")) {
    const std::string& name = exchange.segment(0);
    if (exchange.caller().is_in(name) && application_.teams.find(name)) {
      exchange.enter_team(name);
    }
  } else if (route.pattern.contains("/sandboxes/{id}")) {
    const auto team = co_await application_.sandboxes.team_of(exchange.segment(0));
    if (team && exchange.caller().is_in(*team)) {
      exchange.enter_team(*team);
    }
  }
}

Task<Result<service::Caller>> Server::caller_of(const Exchange& exchange, const Route& route) {
  const wire::http::Request& request = exchange.request();
  const std::string* shown = request.find("authorization");
  if (application_.browsers != nullptr && shown == nullptr && !route.is_websocket) {
    CO_ASSIGN_OR_RETURN(auto caller, co_await session_caller(application_, request));
    if (caller) {
      co_return std::move(*caller);
    }
  }
  const auto of_websocket = route.is_websocket ? websocket_authorization(request) : std::nullopt;
  if (application_.access.lacks_key(of_websocket ? &*of_websocket : shown)) {
    co_await application_.access.fetch_keys();
  }
  if (route.is_websocket && !of_websocket) {
    co_return co_await websocket_caller(application_, request);
  }
  co_return co_await header_caller(application_, of_websocket ? &*of_websocket : shown);
}

namespace {

// A sandbox with a token of its own: for most of them only it itself is there. It never changes
// what it was given (its network, its lease).
Result<void> check_acting_sandbox(const Exchange& exchange, const Route& route) {
  const auto& acting = exchange.caller().sandbox;
  if (!acting) {
    return {};
  }
  const bool is_of_sandbox = route.pattern.contains("/sandboxes/{id}");
  const bool is_own = is_of_sandbox && exchange.segment(0) == acting->id;
  if (is_own && route.method == "PATCH") {
    return base::fail(ErrorCode::forbidden, "a sandbox does not change itself");
  }
  if (!acting->only_itself || is_own) {
    return {};
  }
  if (is_of_sandbox) {
    return base::fail(ErrorCode::not_found, "sandbox '", exchange.segment(0), "' does not exist");
  }
  constexpr std::array<std::string_view, 3> kLists{"/me", "/sandboxes", "/api/v1/sandboxes"};
  const bool is_list =
      route.method == "GET" && std::ranges::find(kLists, route.pattern) != kLists.end();
  if (!is_list && route.pattern != "/ws-tickets") {
    return base::fail(ErrorCode::forbidden, "the token is for sandbox '", acting->id, "' only");
  }
  return {};
}

}  // namespace

Task<Result<void>> Server::let_in(Exchange& exchange, const Route& route) {
  const wire::http::Request& request = exchange.request();
  if (std::ranges::count(request.headers, "authorization", &wire::http::Header::name) > 1) {
    co_return base::fail(ErrorCode::unauthenticated, "more than one Authorization header");
  }
  CO_ASSIGN_OR_RETURN(auto caller, co_await caller_of(exchange, route));
  caller.remote = exchange.remote();
  exchange.set_caller(std::move(caller));
  if (route.pattern.contains("/sandboxes/{id}")) {
    // A call of its agent needs it ready, and asks no more of the store.
    const bool is_of_row = route.pattern.ends_with("{id}") || route.pattern.ends_with("/events");
    co_await application_.sandboxes.look(
        exchange.segment(0),
        is_of_row ? service::Sandboxes::Look::exact : service::Sandboxes::Look::usable);
  }
  co_await enter_team(exchange, route);
  if (!exchange.caller().may(route.scope)) {
    co_return base::fail(ErrorCode::forbidden, "the token does not allow this");
  }
  CO_RETURN_IF_ERROR(check_acting_sandbox(exchange, route));
  co_return Result<void>{};
}

Task<Result<void>> Server::handle(Exchange& exchange, Match match) {
  const Route& route = *match.route;
  exchange.set_segments(std::move(match.segments));
  if (surface_ == Surface::ssh) {
    exchange.audit().event = route.event;
    co_return co_await route.handler(application_, exchange);
  }
  if (stopping_ && route.scope != service::Scope::open && route.scope != service::Scope::metrics) {
    co_return base::fail(ErrorCode::draining, "the gateway is about to stop: ask again");
  }
  exchange.audit().event = route.event;
  if (surface_ == Surface::metrics) {
    if (route.scope != service::Scope::metrics && route.pattern != "/healthz") {
      co_return base::fail(ErrorCode::not_found, "this listener serves /metrics only");
    }
  } else if (route.scope != service::Scope::open) {
    CO_RETURN_IF_ERROR(co_await let_in(exchange, route));
  }
  CO_ASSIGN_OR_RETURN(const Passed passed, pass_gate(application_, exchange, route));
  // A create's row is in the transaction of the sandbox itself.
  if (!is_agents_work(exchange.audit()) && route.event != service::audit_event::kCreate) {
    begin_action(application_, exchange);
  }
  co_return co_await route.handler(application_, exchange);
}

Task<void> Server::watch_access() {
  for (;;) {
    const auto wake = co_await application_.loop.sleep_until(net::Deadline::after(kAccessLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    const auto now = std::chrono::steady_clock::now();
    for (const Connection* connection : connections_) {
      // A younger one may be the very request that revokes its own token.
      const bool is_old = connection->exchange != nullptr && now - connection->began >= kAccessLook;
      if (is_old && !connection->exchange->caller().team.empty() &&
          !application_.access.look_again(connection->exchange->caller())) {
        ::shutdown(connection->fd, SHUT_RDWR);
      }
    }
  }
}

void Server::finish(Exchange& exchange, size_t route, base::SteadyTime began) {
  const auto took = std::chrono::steady_clock::now() - began;
  record_action(application_, exchange, took);
  application_.metrics.count(route, exchange.status(), took, exchange.caller().team);
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

size_t Server::running() const {
  return static_cast<size_t>(std::ranges::count_if(
      connections_, [](const Connection* connection) { return !connection->idle; }));
}

Task<void> Server::stop(net::Deadline deadline) {
  stopping_ = true;
  for (const Connection* connection : connections_) {
    if ((connection->idle && !connection->is_new) ||
        (connection->exchange != nullptr && connection->exchange->is_endless())) {
      ::shutdown(connection->fd, SHUT_RD);
    }
  }
  while (running() > 0 && !hurried_ && std::chrono::steady_clock::now() < deadline.time()) {
    co_await application_.loop.sleep_until(net::Deadline::after(kStopLook));
  }
  stopped_ = true;
  group_.cancel();
  co_await group_.join();
  if (listener_) {
    listener_->close();
  }
  if (inner_listener_) {
    inner_listener_->close();
  }
}

}  // namespace server
