#include "engine/tcp_agent.h"

namespace engine {

net::Task<Result<std::unique_ptr<AgentConnection>>> connect_to_agent(net::EventLoop& loop,
                                                                     net::TaskGroup& tunnels,
                                                                     TcpAgent agent) {
  CO_ASSIGN_OR_RETURN(auto plain,
                      co_await tls::connect_pinned(loop, tunnels, std::move(agent.address),
                                                   std::move(agent.context)));
  co_return std::make_unique<AgentConnection>(loop, std::move(plain));
}

}  // namespace engine
