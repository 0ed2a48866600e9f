// Lifecycle: brings what the engine does and what the store says together. It is the only place
// that starts and removes sandboxes at the engine and the only repair path after a restart (of the
// gateway or of the engine). Owned by main; loop thread only; its children are joined by stop().
// Bounds: one start and one removal under way per sandbox.
#pragma once

#include <set>
#include <string>

#include "service/context.h"
#include "service/leases.h"
#include "service/registries.h"

namespace service {

struct LifecycleOptions {
  // Whether the host was restarted since the gateway last ran: why a sandbox can be missing.
  bool host_restarted = false;
};

class Lifecycle {
 public:
  Lifecycle(Context& context, const Registries& registries, LifecycleOptions options);

  // Loads the live rows; before anything else.
  net::Task<base::Result<void>> load();
  // Follows the engine until stop().
  void start();
  net::Task<void> stop();

  // A row that is in the store and in the table as `starting`: makes it at the engine.
  void begin(const LivePtr& live);
  // Marks it deleting in the store (an error says that this failed; the removal goes on) and
  // removes it in the background.
  net::Task<base::Result<void>> remove(LivePtr live, std::string reason);
  // Ends it by itself: its lease, its lifetime or its start time is over.
  void expire(const LivePtr& live, const std::string& reason);

  [[nodiscard]] Leases& leases() { return leases_; }
  // Whether the engine answered when it was last asked.
  [[nodiscard]] bool engine_answers() const { return engine_answers_; }
  // The most one sandbox can have; unavailable until the engine has told.
  [[nodiscard]] base::Result<Capacity> capacity() const;
  // Compares the table with the engine once and mends what differs; false when it does not answer.
  net::Task<bool> reconcile();

 private:
  net::Task<void> create_at_engine(LivePtr live);
  net::Task<void> remove_at_engine(LivePtr live);
  net::Task<void> remove_unknown(std::string id);
  net::Task<void> store_expiry(LivePtr live, std::string reason);
  net::Task<void> follow();
  void apply(const engine::Change& change);
  void apply_status(const LivePtr& live, const engine::Status& status);
  void become_ready(const LivePtr& live, const engine::Status& status);
  void fail(const LivePtr& live, std::string reason, std::string message);
  void record_event(const LivePtr& live, std::string type, std::string reason, std::string message);
  void record(const LivePtr& live, store::StateChange change);
  [[nodiscard]] base::Result<model::SandboxSpec> spec_of(const SandboxRow& row) const;
  net::Task<void> read_capacity();
  [[nodiscard]] std::string missing_reason(const Live& live) const;

  Context& context_;
  const Registries& registries_;
  LifecycleOptions options_;
  Leases leases_;
  Capacity capacity_;
  bool engine_answers_ = false;
  std::set<std::string> from_before_;  // ready when this process started
  std::set<std::string> removing_unknown_;
  net::TaskGroup group_;
};

}  // namespace service
