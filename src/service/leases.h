// Leases and limits of time. The clock of the store decides (service/store_clock.h): where it
// steps, every deadline is moved with it, so that nothing ends earlier or later than it would have.
// One timer waits for the next thing that is due; renewals stay in memory and are written together
// every two seconds and before the process ends; of a sandbox with an open request or stream so
// often that the store's lease does not run out meanwhile. Loop thread only.
//
// With other gateways on the store each judges all sandboxes, but the store has the last word
// (Lifecycle::expire), and the end is put off by as long as a renewal of another may be on its way.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "service/context.h"

namespace service {

class Leases {
 public:
  // What ends a sandbox when its time is over: `reason` is one of lease_expired, max_lifetime,
  // start_timeout, queue_timeout.
  using OnDue = std::function<void(LivePtr, std::string reason)>;

  Leases(Context& context, OnDue on_due);

  // One that the store had at the start: none of its times is further away than one that begins
  // now, wherever the clock was set while no gateway ran.
  void take_up(const LivePtr& live);
  // Its times changed (a state, a patch): looks again when it is due.
  void note(const LivePtr& live);
  // A request into it: the lease begins anew.
  void renew(const LivePtr& live);

  // An open request or stream: the lease does not run out while one is held. Renews at both ends.
  class Use {
   public:
    Use(Leases& leases, LivePtr live);
    Use(Use&& other) noexcept = default;
    Use& operator=(Use&&) = delete;
    ~Use();
    [[nodiscard]] const LivePtr& live() const { return live_; }

   private:
    Leases* leases_;
    LivePtr live_;
  };

  // Ends what is due now. Called by watch_due; tests call it after moving their clock.
  void check_due();
  // Looks at the store's clock. Where that is this process' wall clock and it was stepped, all
  // deadlines move by the step; a database server's is the truth for all gateways on it and is
  // taken over as it is.
  net::Task<void> follow_clock();
  // Two coroutines for main to spawn; both end when cancelled.
  net::Task<void> watch_due();
  net::Task<void> write_renewals();
  // Writes what is not written; at the end of the process.
  net::Task<void> flush();

 private:
  net::Task<void> follow_step();
  // False: the store is a file, whose clock is this process'.
  net::Task<bool> follow_server();
  [[nodiscard]] std::pair<int64_t, std::string> due_of(const Live& live) const;
  // How much later than it is written something ends where other gateways have a say in it.
  [[nodiscard]] int64_t grace_ms(const Live& live) const;
  void renew_used();

  Context& context_;
  OnDue on_due_;
  std::set<std::pair<int64_t, std::string>> due_;  // time and id; may be earlier than the truth
  std::vector<LivePtr> dirty_;
  int64_t uses_ = 0;                // of all sandboxes
  base::SteadyTime server_look_{};  // not before this
  bool has_server_ = true;          // until the store says otherwise
  int64_t unstored_shift_ms_ = 0;   // by which the store's deadlines are behind those in memory
  net::Event due_changed_;
  net::Event renewed_;
};

}  // namespace service
