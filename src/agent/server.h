// The agent's HTTP server: accepts on one listening socket, one coroutine a connection, routes by
// the table of api/agent-protocol.md. Owned by main; loop thread only; at most kConnectionsMax
// connections. Idle connections are kept for as long as the gateway keeps them.
#pragma once

#include <optional>
#include <string_view>

#include "agent/agent.h"
#include "agent/service.h"
#include "agent/sessions.h"
#include "agent/stream_routes.h"
#include "base/fd.h"
#include "net/http.h"
#include "net/task_group.h"

namespace agent {

class Server {
 public:
  static constexpr size_t kConnectionsMax = 1024;

  // `listener` is a non-blocking listening socket; without one, connections are adopted only.
  Server(Agent& agent, base::Fd listener);
  ~Server();
  // Starts the image's entrypoint if there is one and accepts until cancelled; then ends all
  // connections and sessions.
  Task<void> serve();
  // A connected non-blocking socket that was accepted elsewhere.
  void adopt(base::Fd socket) { connections_.spawn(serve_connection(std::move(socket))); }

 private:
  void start_entrypoint();
  Task<void> serve_connection(base::Fd socket);
  // True if the connection can take another request.
  Task<bool> serve_request(net::Stream& stream, net::HttpReader& reader,
                           const wire::http::Request& request);
  Task<Result<void>> dispatch(net::Stream& stream, net::HttpReader& reader,
                              const wire::http::Request& request);
  Task<Result<void>> connect_command(net::Stream& stream, net::HttpReader& reader,
                                     const wire::http::Request& request);
  Task<Result<void>> run(net::Stream& stream, net::HttpReader& reader,
                         const wire::http::Request& request);

  Agent& agent_;
  base::Fd listener_;
  Sessions sessions_;
  Streams streams_;
  std::optional<Service> service_;
  bool entrypoint_started_ = false;
  net::TaskGroup connections_;
};

}  // namespace agent
