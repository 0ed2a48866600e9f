// LocalEngine: the engine of one machine, a client of sandbox-node by api/node-protocol.md and of
// the agents' sockets beside it. Owned by main; loop thread only. One connection to the node, made
// again with back-off when it ends: calls under way then fail with unavailable, calls that come
// meanwhile wait kConnectPatience for it. What node and agents say is checked and limited.
// Bounds: those of NodeClient and AgentPool.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/local/agent_pool.h"
#include "engine/local/node_client.h"
#include "engine/local/node_images.h"
#include "net/task_group.h"

namespace engine {

struct LocalEngineOptions {
  std::string node_socket;       // RUN/node.sock
  std::string sandboxes_folder;  // RUN/sandboxes
};

class LocalEngine final : public Engine {
 public:
  LocalEngine(net::EventLoop& loop, LocalEngineOptions options, base::Log& log);
  ~LocalEngine() override;

  // Begins to connect; call once. close() ends all it does and must be awaited before it goes.
  void start();
  net::Task<void> close();

  net::Task<Result<Status>> create(model::SandboxSpec spec) override;
  net::Task<Result<Status>> get(std::string id) override;
  net::Task<Result<std::vector<Status>>> list() override;
  net::Task<Result<void>> remove(std::string id) override;
  net::Task<Result<void>> set_network(std::string id, model::NetworkPolicy policy) override;
  net::Task<Result<std::vector<Usage>>> usage(std::string id) override;
  net::Task<Result<Change>> next_change() override;
  net::Task<Result<std::unique_ptr<AgentConnection>>> connect(std::string id) override;
  void give_back(std::string id, std::unique_ptr<AgentConnection> connection) override;
  net::Task<Result<std::vector<NodeInfo>>> nodes() override;
  net::Task<Result<void>> check() override;
  Images& images() override;
  // A listening socket at which what this machine's sandboxes send to their gateway arrives.
  net::Task<Result<base::Fd>> inner_listener();
  [[nodiscard]] const CallTimes& call_times() const override { return node_.times(); }

 private:
  NodeClient node_;
  AgentPool agents_;
  NodeImages images_;
  net::TaskGroup group_;
};

}  // namespace engine
