// AgentPool: channels to the agents of this machine's sandboxes, kept for the next request. Owned
// by LocalEngine; loop thread only. A channel whose peer has closed, or that holds bytes nobody
// asked for, is never handed out. Bounds: kIdlePerSandboxMax and kIdleMax idle channels (the
// oldest go first); run() closes those idle for kIdlePatience.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "engine/engine.h"

namespace engine {

class AgentPool {
 public:
  // A sandbox rarely has more requests at once; a burst of more makes new channels.
  static constexpr size_t kIdlePerSandboxMax = 16;
  // Far below the descriptors of the process.
  static constexpr size_t kIdleMax = 1024;
  static constexpr base::Milliseconds kIdlePatience{60'000};

  // Agents listen at FOLDER/ID/agent.sock, those of other containers at agent-N.sock.
  // `idle_patience` is shorter in tests.
  AgentPool(net::EventLoop& loop, std::string folder,
            base::Milliseconds idle_patience = kIdlePatience)
      : loop_(loop), folder_(std::move(folder)), idle_patience_(idle_patience) {}
  AgentPool(const AgentPool&) = delete;
  AgentPool& operator=(const AgentPool&) = delete;

  // Closes what is idle too long, until cancelled.
  net::Task<void> run();

  // `id`: an agent_address(). not_found: no such sandbox, or its agent does not listen;
  // unavailable: it takes no connections.
  net::Task<Result<std::unique_ptr<AgentConnection>>> connect(std::string id);
  void give_back(const std::string& id, std::unique_ptr<AgentConnection> connection);
  // The sandbox is gone or its agents are others.
  void forget(const std::string& id);
  [[nodiscard]] size_t idle() const { return idle_.size(); }

 private:
  struct Idle {
    std::string id;
    std::unique_ptr<AgentConnection> connection;
    base::SteadyTime since;
  };
  using Place = std::list<Idle>::iterator;
  std::unique_ptr<AgentConnection> take(const std::string& id);
  void drop(Place place);
  [[nodiscard]] std::string socket_of(const std::string& address) const;
  void forget_one(const std::string& address);

  net::EventLoop& loop_;
  std::string folder_;
  base::Milliseconds idle_patience_;
  std::list<Idle> idle_;                                     // the oldest first
  std::unordered_map<std::string, std::list<Place>> by_id_;  // the oldest first
};

}  // namespace engine
