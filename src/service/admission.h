// Admission: the queues as this process sees them, and the one place that has the store decide
// again when quota became free. The store decides and keeps; this tells what came of it, who waits
// where and why, and what is borrowed. Owned by the lifecycle; loop thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/quota.h"
#include "service/context.h"

namespace service {

class Admission {
 public:
  // What is to be done with sandboxes that a decision changed; their rows are as they are now.
  struct Effects {
    std::function<void(const SandboxRow&)> changed;
    std::function<void(const SandboxRow&)> preempted;
    // Admitted after it had failed (its time in the queue was over): to be given back.
    std::function<void(const LivePtr&)> too_late;
  };

  Admission(Context& context, model::Limits total, Effects effects);

  [[nodiscard]] store::AdmissionRules rules() const {
    return {.total = total_, .replica = context_.replicas.id()};
  }
  // A row that is queued, of the table.
  void enqueue(const LivePtr& live);
  // It is not queued any more.
  void forget(const LivePtr& live);
  // What a decision of the store did.
  void apply(const store::Admission& decision);
  // Quota became free, or quotas changed: decides soon.
  void look_again();
  // The same where another gateway did that, which decides itself: only if it has not by then.
  void look_later();
  // Until cancelled; spawned by the lifecycle.
  net::Task<void> run();

  struct Place {
    int64_t position = 1;
    std::string reason;
  };
  // nullopt: it is not queued.
  [[nodiscard]] std::optional<Place> place_of(const SandboxRow& row) const;
  // How much of it is borrowed now.
  [[nodiscard]] model::Amounts borrowed(const SandboxRow& row) const;

  struct TeamQuotas {
    model::TeamQuota quota;
    model::TeamShare share;
    int64_t queued = 0;
    bool drained = false;
  };
  struct Overview {
    std::vector<TeamQuotas> teams;  // by name
    model::Limits total;
    model::Amounts pool_size{};  // what the teams lend each other
    model::Amounts pool_used{};
    model::Amounts used{};  // by all
  };
  net::Task<base::Result<Overview>> overview();

 private:
  net::Task<bool> decide();
  [[nodiscard]] bool nobody_waits() const;

  struct Borrowed {
    uint64_t version = 0;  // of the table
    TeamPtr team;          // its limits then
    std::unordered_map<std::string, model::Amounts> by_id;
  };

  Context& context_;
  model::Limits total_;
  Effects effects_;
  std::map<std::string, std::vector<int64_t>> tickets_;  // of a team, ascending
  mutable std::map<std::string, Borrowed> borrowed_;     // by team; made when asked for
  bool wanted_ = false;
  bool wanted_later_ = false;
  net::Event wanted_changed_;
};

// The quota of a team as the model takes it.
model::TeamQuota quota_of(const Team& team);

}  // namespace service
