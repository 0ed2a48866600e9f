// Server: one listening address and its connections, each a coroutine that answers one request
// after the other. Owned by main; loop thread only. At most kConnectionsMax connections; one more
// is told 429 and closed. stop() must be awaited before it goes.
#pragma once

#include <list>
#include <optional>
#include <string>

#include "net/listener.h"
#include "net/task_group.h"
#include "server/application.h"
#include "server/route.h"

namespace server {

enum class Surface { all, metrics };  // metrics: /metrics and /healthz, without a token

class Server {
 public:
  Server(Application& application, Surface surface)
      : application_(application), surface_(surface), group_(application.loop) {}

  // Binds and accepts; the port.
  Result<uint16_t> listen(const std::string& address);
  // Serves a connection that is there already.
  void adopt(base::Fd client) { group_.spawn(serve(std::move(client))); }
  // Accepts no more, lets running requests end until the deadline, then cancels them.
  Task<void> stop(net::Deadline deadline);

 private:
  struct Connection {
    int fd = -1;
    bool idle = true;
    const Exchange* exchange = nullptr;  // while one is answered
  };
  Task<void> accept_all();
  Task<void> serve(base::Fd fd);
  Task<bool> serve_one(net::Stream& client, net::HttpReader& reader, Connection& connection);
  Task<void> refuse(net::Stream& client, Error error);
  // The row's number, for the counters.
  Task<size_t> dispatch(Exchange& exchange);
  Task<Result<void>> handle(Exchange& exchange, Match match);
  void finish(const Exchange& exchange, size_t route, base::SteadyTime began);

  Application& application_;
  Surface surface_;
  std::optional<net::Listener> listener_;
  std::list<Connection*> connections_;
  bool stopping_ = false;
  net::TaskGroup group_;
};

}  // namespace server
