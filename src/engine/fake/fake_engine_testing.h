// FakeEngine: an engine in memory for the tests of what stands above it. Sandboxes are records;
// each channel of connect() ends in an in-process agent that speaks the part of the agent protocol
// named at FakeAgent. Passes the engine contract. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fake/fake_agent_testing.h"
#include "net/task_group.h"

namespace engine {

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(net::EventLoop& loop);
  ~FakeEngine() override;

  // --- what a test decides
  // Images that are present: create() with one is ready at once. "demo:latest" is there.
  void add_image(const std::string& name);
  // create() with any other image stays `starting` (pulling) until the test says how it ends:
  void finish_start(const std::string& id);
  void fail_start(const std::string& id, const std::string& reason, const std::string& message);
  // A ready sandbox dies: status failed and a change, as when PID 1 ends.
  void die(const std::string& id, const std::string& reason, const std::string& message);
  // Everything answers unavailable until it is set back; changes are then lost once.
  void set_available(bool available);
  // The host restarted: all sandboxes are gone without a change.
  void forget_all();
  // list() keeps its answers, with what was there when it was asked, until it is let go.
  void hold_lists(bool hold);
  // How many wait.
  [[nodiscard]] size_t lists_held() const { return lists_held_; }
  // create() fails at once with this error, once.
  void fail_next_create(base::Error error);
  // --- what a test looks at
  [[nodiscard]] size_t size() const { return records_.size(); }
  [[nodiscard]] const model::SandboxSpec* spec(const std::string& id) const;
  // Of a ready sandbox, else nullptr.
  [[nodiscard]] FakeAgent* agent(const std::string& id);
  [[nodiscard]] size_t connections_made() const { return connections_made_; }
  [[nodiscard]] size_t idle_connections() const { return idle_.size(); }

  // Ends the agents; awaited (or run by the loop) before the engine goes.
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
  [[nodiscard]] const CallTimes& call_times() const override { return call_times_; }
  Images& images() override;

 private:
  class FakeImages;
  struct Record {
    Status status;
    model::SandboxSpec spec;
    std::shared_ptr<FakeAgent> agent;  // of a ready sandbox
  };
  void end_agent(Record& record);
  void tell(const Record& record, std::string type, std::string message);
  Result<void> available() const;

  net::EventLoop& loop_;
  CallTimes call_times_;
  bool available_ = true;
  std::map<std::string, Record> records_;
  std::deque<Result<Change>> changes_;
  net::Event change_event_;
  std::optional<base::Error> next_create_error_;
  bool holds_lists_ = false;
  size_t lists_held_ = 0;
  net::Event lists_event_;
  std::multimap<std::string, std::unique_ptr<AgentConnection>> idle_;
  size_t connections_made_ = 0;
  int64_t usages_ = 0;
  std::unique_ptr<FakeImages> images_;
  std::vector<std::shared_ptr<FakeAgent>> ended_;  // their connections end by themselves
};

}  // namespace engine
