// Leases and limits of time. The clock of the store (wall time) decides; one timer waits for the
// next thing that is due; renewals stay in memory and are written together every two seconds and
// before the process ends. Loop thread only.
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
  // start_timeout.
  using OnDue = std::function<void(LivePtr, std::string reason)>;

  Leases(Context& context, OnDue on_due);

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
  // Two coroutines for main to spawn; both end when cancelled.
  net::Task<void> watch_due();
  net::Task<void> write_renewals();
  // Writes what is not written; at the end of the process.
  net::Task<void> flush();

 private:
  [[nodiscard]] std::pair<int64_t, std::string> due_of(const Live& live) const;

  Context& context_;
  OnDue on_due_;
  std::set<std::pair<int64_t, std::string>> due_;  // time and id; may be earlier than the truth
  std::vector<LivePtr> dirty_;
  net::Event due_changed_;
  net::Event renewed_;
};

}  // namespace service
