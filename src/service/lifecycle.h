// Lifecycle: brings what the engine does and what the store says together. It is the only place
// that starts and removes sandboxes at the engine and the only repair path after a restart (of the
// gateway or of the engine). Owned by main; loop thread only; its children are joined by stop().
// Bounds: one start and one removal under way per sandbox.
//
// Of several gateways on a store the one that brought a sandbox into its state works at it (its
// row's `replica`, Replicas::drives); the others see what comes of it in the store (take). A state
// changes there by compare-and-set, so of two changes at once one takes place, and whoever made the
// other takes the row as it is. What a gateway that died was at work at, another takes over.
// lifecycle_reconcile.cc: engine and table; lifecycle_sharing.cc: store and table.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "service/admission.h"
#include "service/context.h"
#include "service/credentials.h"
#include "service/leases.h"
#include "service/registries.h"

namespace service {

struct LifecycleOptions {
  // Whether the host was restarted since the gateway last ran: why a sandbox can be missing.
  bool host_restarted = false;
  model::Limits total;  // the operator's, of all teams together
};

// What a sandbox says that failed of queue_timeout or start_timeout.
std::string time_out_message(std::string_view reason);

class Lifecycle {
 public:
  Lifecycle(Context& context, const Registries& registries, LifecycleOptions options);

  // Sandboxes are given these before they become ready.
  void use(Credentials* credentials) { credentials_ = credentials; }
  // Loads the live rows; before anything else.
  net::Task<base::Result<void>> load();
  // Follows the engine until stop().
  void start();
  net::Task<void> stop();

  // A row that is in the store and in the table: makes a `starting` one at the engine, lets a
  // `queued` one wait.
  void begin(const LivePtr& live);
  // Marks it deleting in the store (an error says that this failed; the removal goes on) and
  // removes it in the background.
  net::Task<base::Result<void>> remove(LivePtr live, std::string reason);
  // Ends every sandbox of a team; how many.
  int64_t end_all(std::string_view team, const std::string& reason);
  // Ends it by itself: its lease, its lifetime or its start time is over.
  void expire(const LivePtr& live, const std::string& reason);

  // --- what others have written
  // A row as the store has it, read after what was written here before. Where this gateway knows
  // better (its own change is on its way to the store) nothing happens.
  void take(SandboxRow row);
  // Reads rows of these ids and takes them.
  net::Task<base::Result<void>> refresh(std::vector<std::string> ids);
  // Does so once the store answers: whether a row was stored is not known.
  void look_for(std::string id);
  // The same with all that live.
  net::Task<base::Result<void>> refresh_all();
  // Takes over what gateways that are gone have left undone.
  void look_after_orphans();

  [[nodiscard]] Leases& leases() { return leases_; }
  [[nodiscard]] Admission& admission() { return admission_; }
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
  net::Task<void> remove_failed(LivePtr live);
  net::Task<bool> remove_until_gone(LivePtr live);
  void preempt(const SandboxRow& row);
  net::Task<void> store_expiry(LivePtr live, std::string reason);
  net::Task<void> expire_in_store(LivePtr live, std::string reason);
  // What is to be done with it by the gateway that drives it, which this one is.
  void drive(const LivePtr& live);
  void note_stored(const LivePtr& live, const store::Changed& changed);
  net::Task<void> take_over(std::string from);
  net::Task<void> find_out(std::string id);
  net::Task<void> follow();
  void apply(const engine::Change& change);
  net::Task<void> equip(LivePtr live, engine::Status status);
  net::Task<void> bring_up_services(LivePtr live, engine::Status status);
  void apply_status(const LivePtr& live, const engine::Status& status);
  void become_ready(const LivePtr& live, const engine::Status& status);
  void fail(const LivePtr& live, std::string reason, std::string message);
  void record_event(const LivePtr& live, std::string type, std::string reason, std::string message);
  void record(const LivePtr& live, store::StateChange change, std::function<void()> then = {});
  [[nodiscard]] base::Result<std::vector<model::ContainerSpec>> containers_of(
      const SandboxRow& row) const;
  [[nodiscard]] base::Result<model::SandboxSpec> spec_of(const SandboxRow& row) const;
  net::Task<void> read_capacity();
  [[nodiscard]] std::string missing_reason(const Live& live) const;

  Context& context_;
  const Registries& registries_;
  LifecycleOptions options_;
  Credentials* credentials_ = nullptr;  // nullptr: there are none
  Leases leases_;
  Admission admission_;
  Capacity capacity_;
  bool engine_answers_ = false;
  std::set<std::string> drained_;      // teams that were drained when this process started
  std::set<std::string> from_before_;  // ready when this process started
  std::set<std::string> removing_unknown_;
  std::set<std::string> leaving_;      // gone here, and the store is being told
  std::set<std::string> taking_over_;  // gateways whose work is being taken over
  net::TaskGroup group_;
};

}  // namespace service
