// Server: one listening address and its connections, each a coroutine that answers one request
// after the other. Owned by main; loop thread only. At most kConnectionsMax connections; one more
// is told 429 and closed. stop() must be awaited before it goes.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>

#include "net/listener.h"
#include "net/task_group.h"
#include "server/application.h"
#include "server/route.h"

namespace server {

// metrics: /metrics and /healthz, without a token; ssh: what the SSH front asks (ssh_routes.h).
enum class Surface { all, metrics, ssh };

class Server {
 public:
  Server(Application& application, Surface surface)
      : application_(application), surface_(surface), group_(application.loop) {}

  // Ends what loses its right to go on; beside listen() and adopt().
  void start() { group_.spawn(watch_access()); }
  // Binds and accepts; the port.
  Result<uint16_t> listen(const std::string& address);
  // The same on a socket that listens already.
  void listen(base::Fd socket) {
    listener_.emplace(application_.loop, std::move(socket));
    group_.spawn(accept_all(*listener_, false));
  }
  // Accepts from sandboxes, too, by a socket that listens already; each has kInnerConnectionsMax
  // connections at once, and all of them half of the places. Plain HTTP: it is within one machine.
  void listen_inside(base::Fd socket);
  // Serves a connection that is there already; `remote` is its client's address.
  void adopt(base::Fd client, std::string remote) {
    if (!stopped_) {
      group_.spawn(serve(std::move(client), std::move(remote)));
    }
  }
  // Answers new requests with 503 `draining` (health, documents and metrics aside) and ends endless
  // streams and idle connections; the first request of a new one may be on its way. What runs may
  // end until the deadline or hurry(), then it is cancelled. Nothing is accepted afterwards.
  Task<void> stop(net::Deadline deadline);
  void hurry() { hurried_ = true; }
  // Clients, whether they ask something or not.
  [[nodiscard]] int64_t connections() const { return static_cast<int64_t>(connections_.size()); }
  // Requests that are answered now.
  [[nodiscard]] size_t running() const;

 private:
  struct Connection {
    int fd = -1;
    std::string remote;  // the client's address
    bool idle = true;
    bool is_new = true;  // without a request so far
    const Exchange* exchange = nullptr;  // while one is answered
    base::SteadyTime began;              // that one
  };
  Task<void> accept_all(net::Listener& listener, bool is_inside);
  Task<void> serve_inside(base::Fd fd, std::string remote);
  Task<void> serve(base::Fd fd, std::string remote);
  Task<bool> serve_one(net::Stream& client, net::HttpReader& reader, Connection& connection);
  Task<void> refuse(net::Stream& client, Error error);
  // The row's number, for the counters.
  Task<size_t> dispatch(Exchange& exchange);
  Task<Result<void>> handle(Exchange& exchange, Match match);
  // Who asks: by a token of ours, one of the issuer, a ticket, or a browser's session.
  Task<Result<service::Caller>> caller_of(const Exchange& exchange, const Route& route);
  Task<Result<void>> let_in(Exchange& exchange, const Route& route);
  // A caller in several teams acts in the one that the path is about.
  Task<void> enter_team(Exchange& exchange, const Route& route);
  // Ends the requests and streams of those whose token has been revoked or has expired meanwhile.
  Task<void> watch_access();
  void finish(Exchange& exchange, size_t route, base::SteadyTime began);

  Application& application_;
  Surface surface_;
  std::optional<net::Listener> listener_;
  std::optional<net::Listener> inner_listener_;
  std::map<std::string, size_t> inner_connections_;  // by address
  size_t inner_ = 0;                                 // of all of them
  std::list<Connection*> connections_;
  bool stopping_ = false;
  bool hurried_ = false;
  bool stopped_ = false;
  net::TaskGroup group_;
};

}  // namespace server
