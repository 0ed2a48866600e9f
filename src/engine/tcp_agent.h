// An agent that is reached over a network (a Pod's, a virtual machine's): at an address that may be
// another sandbox's by now, by the pin that is this sandbox's alone (tls/pinned.h). For engines;
// loop thread only.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "net/task_group.h"
#include "tls/pinned.h"

namespace engine {

struct TcpAgent {
  std::string address;                    // ADDRESS:PORT
  std::shared_ptr<tls::Context> context;  // tls::Context::pinned
};

// A channel as Engine::connect gives one; `tunnels` is the engine's and carries its bytes. Errors:
// as tls::connect_pinned.
net::Task<Result<std::unique_ptr<AgentConnection>>> connect_to_agent(net::EventLoop& loop,
                                                                     net::TaskGroup& tunnels,
                                                                     TcpAgent agent);

}  // namespace engine
