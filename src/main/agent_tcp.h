// Where the agent listens on TCP, if its configuration says so (api/agent-protocol.md, "Over a
// network"). The agent is built twice of the same source: sandbox-agent-tls has agent_tcp.cc;
// sandbox-agent, which every sandbox of a machine of its own holds, has agent_no_tcp.cc, and
// neither TLS nor what TLS needs.
#pragma once

#include <memory>

#include "agent/server.h"
#include "base/secret.h"

class TcpPlace {
 public:
  virtual ~TcpPlace() = default;
  // Accepts until cancelled.
  virtual net::Task<void> serve() = 0;
};

// Null: the configuration names no place. The loop and the server outlive it.
base::Result<std::unique_ptr<TcpPlace>> listen_on_tcp(net::EventLoop& loop, agent::Server& server,
                                                      const base::Secret& config);
