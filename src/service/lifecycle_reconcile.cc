// Lifecycle: the engine and the table of sandboxes are made to agree.
#include <map>
#include <vector>

#include "service/build_names.h"
#include "service/lifecycle.h"
#include "service/service_start.h"

namespace service {
namespace {

using base::Result;
using net::Task;

// Between two tries to reach an engine that does not answer.
constexpr base::Milliseconds kRetryPause{500};

bool is_wanted(SandboxState state) {
  return state == SandboxState::queued || state == SandboxState::starting ||
         state == SandboxState::ready;
}

}  // namespace

void Lifecycle::apply_status(const LivePtr& live, const engine::Status& status) {
  const SandboxState state = live->row.state;
  if (state == SandboxState::starting && !context_.replicas.drives(live->row)) {
    return;  // whoever starts it sees this too, and writes it
  }
  switch (status.state) {
    case engine::State::starting:
      break;
    case engine::State::ready:
      if (state == SandboxState::starting && live->row.containers.empty()) {
        if (credentials_ == nullptr) {
          become_ready(live, status);
        } else if (!std::exchange(live->bringing_up, true)) {
          group_.spawn(equip(live, status));
        }
      } else if (state == SandboxState::starting && !std::exchange(live->bringing_up, true)) {
        group_.spawn(bring_up_services(live, status));
      }
      break;
    case engine::State::failed:
      fail(live, status.reason.empty() ? "start_failed" : status.reason, status.message);
      break;
    case engine::State::gone:
      fail(live, missing_reason(*live), "the sandbox is gone");
      break;
  }
}

// Its first command finds its credentials: they are with its agent before it is ready.
Task<void> Lifecycle::equip(LivePtr live, engine::Status status) {
  const auto go_on = [this, live, status] {
    if (std::exchange(live->bringing_up, false) && live->row.state == SandboxState::starting &&
        context_.replicas.drives(live->row)) {
      become_ready(live, status);
    }
  };
  live->equipping = true;
  co_await credentials_->equip(live, status.image_digest, go_on);
  live->equipping = false;
  go_on();
}

// Of a sandbox of several containers, all of which are there.
Task<void> Lifecycle::bring_up_services(LivePtr live, engine::Status status) {
  auto spec = spec_of(live->row);
  if (!spec) {
    live->bringing_up = false;
    fail(live, "start_failed", spec.error().message);
    co_return;
  }
  const auto is_wanted = [this, live] {
    return live->row.state == SandboxState::starting && context_.replicas.drives(live->row);
  };
  if (credentials_ != nullptr) {
    co_await credentials_->equip(live, status.image_digest);
  }
  ServiceStart services(context_, live->row.id, std::move(spec->containers), is_wanted);
  const auto done = co_await services.run();
  live->bringing_up = false;
  if (!is_wanted()) {
    co_return;
  }
  if (done) {
    become_ready(live, status);
    co_return;
  }
  for (const auto& [key, value] : done.error().details) {
    if (key == "reason") {
      fail(live, value, done.error().message);
      co_return;
    }
  }
}

void Lifecycle::apply(const engine::Change& change) {
  const LivePtr live = context_.live.find(change.status.id);
  if (!live) {
    return;
  }
  if (!change.type.empty() && live->row.state != SandboxState::deleting &&
      context_.replicas.drives(live->row)) {
    const bool is_starting = change.type == "starting";
    if (!is_starting || !std::exchange(live->starting_told, true)) {
      // out_of_memory comes with the failure it explains (fail() records it).
      if (change.type == "pulling" || change.type == "pulled" || is_starting ||
          change.type == "policy_denied") {
        record_event(live, change.type, change.status.reason, change.message);
      }
    }
  }
  apply_status(live, change.status);
}

// What the engine has and the table does not (or only as failed).
Task<void> Lifecycle::remove_unknown(std::string id) {
  if (!removing_unknown_.insert(id).second) {
    co_return;
  }
  // Another gateway may have made it: its row was there before its work began.
  Result<void> known;
  if (context_.replicas.shared()) {
    known = co_await refresh({id});
  }
  const LivePtr live = context_.live.find(id);
  if (!known || (live && is_wanted(live->row.state))) {
    removing_unknown_.erase(id);
    co_return;
  }
  const auto removed = co_await context_.engine.remove(id);
  removing_unknown_.erase(id);
  if (!removed) {
    // reconcile() finds it again.
    context_.log.warning("leftover not removed",
                         {{"sandbox", id}, {"error", removed.error().message}});
  }
}

std::string Lifecycle::missing_reason(const Live& live) const {
  return options_.host_restarted && from_before_.contains(live.row.id) ? "host_restarted"
                                                                       : "agent_lost";
}

Task<bool> Lifecycle::reconcile() {
  // Only what is settled before the engine is asked can be missed in its answer: what was queued
  // then may be ready by the time it comes.
  std::map<std::string, SandboxState> settled;
  for (const auto& [id, live] : context_.live.all()) {
    if (!live->creating) {
      settled.emplace(id, live->row.state);
    }
  }
  const auto statuses = co_await context_.engine.list();
  engine_answers_ = statuses.has_value();
  if (!statuses) {
    co_return false;
  }
  co_await read_capacity();
  for (const engine::Status& status : *statuses) {
    if (belongs_to_builds(status.id)) {
      continue;  // service/builds looks after these
    }
    const LivePtr live = context_.live.find(status.id);
    if (!live || live->row.state == SandboxState::failed) {
      group_.spawn(remove_unknown(status.id));
      continue;  // a failed one is settled: what quota it holds is given back below
    }
    settled.erase(status.id);
    apply_status(live, status);
    if (live->row.state == SandboxState::deleting && context_.replicas.drives(live->row)) {
      group_.spawn(remove_at_engine(live));
    }
  }
  for (const auto& [id, state_before] : settled) {
    const LivePtr live = context_.live.find(id);
    if (!live) {
      continue;
    }
    if (live->row.state == SandboxState::ready && state_before == SandboxState::ready) {
      fail(live, missing_reason(*live), "the sandbox is gone");
    } else if (context_.replicas.drives(live->row) && !live->creating) {
      drive(live);
    }
  }
  from_before_.clear();
  co_return true;
}

Task<void> Lifecycle::follow() {
  net::Cancellation* cancellation = co_await net::current_cancellation();
  while (!cancellation->requested()) {
    const bool agrees = co_await reconcile();
    while (agrees && !cancellation->requested()) {
      const auto change = co_await context_.engine.next_change();
      if (!change) {
        if (cancellation->requested()) {
          co_return;
        }
        context_.log.warning("the engine's changes were interrupted",
                             {{"error", change.error().message}});
        engine_answers_ = false;
        break;
      }
      apply(*change);
    }
    co_await context_.loop.sleep_until(net::Deadline::after(kRetryPause));
  }
}

}  // namespace service
