// Lifecycle: the table of sandboxes follows what is written to the store, by other gateways too.
#include <algorithm>
#include <vector>

#include "service/lifecycle.h"

namespace service {
namespace {

using base::Result;
using net::Task;

// Between two tries to reach a store that does not answer.
constexpr base::Milliseconds kStorePause{1'000};

// Whether somebody has to do something to it at the engine.
bool needs_work(const SandboxRow& row) {
  return row.state == SandboxState::starting || row.state == SandboxState::deleting ||
         (row.state == SandboxState::failed && row.holds_quota);
}

// What ends it in the store: only from a state in which its time can be over, and not where the
// lease was renewed through another gateway, so that it is a later one than is known here.
store::StateChange ending(const SandboxRow& row, const std::string& reason, int64_t now_ms) {
  store::StateChange change{.reason = reason};
  if (reason == "queue_timeout" || reason == "start_timeout") {
    const bool is_queued = reason == "queue_timeout";
    change.from = {is_queued ? SandboxState::queued : SandboxState::starting};
    change.to = SandboxState::failed;
    change.message = time_out_message(reason);
    change.events = {
        {.at_ms = now_ms, .type = "failed", .reason = reason, .message = *change.message}};
    return change;
  }
  if (reason == "lease_expired") {
    change.from = {SandboxState::ready};
    change.lease_over_ms = row.lease_expires_ms;
  } else {
    change.from = {SandboxState::queued, SandboxState::starting, SandboxState::ready,
                   SandboxState::failed};
  }
  change.to = SandboxState::deleting;
  change.events = {{.at_ms = now_ms, .type = "deleting", .reason = reason}};
  return change;
}

// The later of two leases where both count from the same rule.
void keep_renewals(const SandboxRow& known, SandboxRow& row) {
  if (known.state == SandboxState::ready && row.state == SandboxState::ready &&
      known.lease_sec == row.lease_sec) {
    row.last_activity_ms = std::max(row.last_activity_ms, known.last_activity_ms);
    row.lease_expires_ms = std::max(row.lease_expires_ms, known.lease_expires_ms);
  }
}

}  // namespace

void Lifecycle::drive(const LivePtr& live) {
  if (!context_.replicas.drives(live->row)) {
    return;
  }
  switch (live->row.state) {
    case SandboxState::starting:
      if (!live->creating) {
        begin(live);
      }
      break;
    case SandboxState::deleting:
      group_.spawn(remove_at_engine(live));
      break;
    case SandboxState::failed:
      if (live->row.holds_quota) {
        group_.spawn(remove_failed(live));
      }
      break;
    case SandboxState::queued:
    case SandboxState::ready:
    case SandboxState::deleted:
      break;
  }
}

void Lifecycle::take(SandboxRow row) {
  if (leaving_.contains(row.id)) {
    return;
  }
  LivePtr live = context_.live.find(row.id);
  if (!live) {
    if (row.state == SandboxState::deleted) {
      return;
    }
    live = context_.live.add(std::move(row));
    if (live->row.state == SandboxState::queued) {
      admission_.enqueue(live);
    }
    leases_.note(live);
    drive(live);
    return;
  }
  // Two readers of the store may end in another order than they began in: no state comes back.
  if (live->unwritten > 0 || row.state < live->row.state) {
    return;
  }
  const SandboxState before = live->row.state;
  const bool is_moved = before != row.state || live->row.replica != row.replica;
  const bool is_released = live->row.holds_quota && !row.holds_quota;
  keep_renewals(live->row, row);
  if (before == SandboxState::queued && row.state != SandboxState::queued) {
    admission_.forget(live);
  }
  live->row = std::move(row);
  if (live->row.state == SandboxState::deleted) {
    context_.live.erase(live->row.id);
  }
  context_.live.note_change();
  if (before != live->row.state) {
    live->changed.notify();
  }
  live->note_recorded();
  leases_.note(live);
  if (is_released) {
    admission_.look_later();
  }
  if (is_moved) {
    drive(live);
  }
}

void Lifecycle::note_stored(const LivePtr& live, const store::Changed& changed) {
  if (changed.applied) {
    live->row.replica = changed.sandbox.replica;
  } else {
    take(changed.sandbox);
  }
}

Task<Result<void>> Lifecycle::refresh(std::vector<std::string> ids) {
  auto read = [this, &ids] { return context_.store.find_sandboxes(ids); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  for (SandboxRow& row : rows) {
    take(std::move(row));
  }
  co_return Result<void>{};
}

void Lifecycle::look_for(std::string id) { group_.spawn(find_out(std::move(id))); }

Task<void> Lifecycle::find_out(std::string id) {
  for (;;) {
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kStorePause));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    if (const auto found = co_await refresh({id}); found) {
      co_return;
    }
  }
}

Task<Result<void>> Lifecycle::refresh_all() {
  std::vector<std::string> known;
  for (const auto& [id, live] : context_.live.all()) {
    known.push_back(id);
  }
  auto read = [this] { return context_.store.all_live_sandboxes(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  std::set<std::string> present;
  for (SandboxRow& row : rows) {
    present.insert(row.id);
    take(std::move(row));
  }
  // Those that are gone meanwhile: their rows say how.
  std::erase_if(known, [&present](const std::string& id) { return present.contains(id); });
  co_return co_await refresh(std::move(known));
}

void Lifecycle::look_after_orphans() {
  for (const auto& [id, live] : context_.live.all()) {
    const SandboxRow& row = live->row;
    if (needs_work(row) && !context_.replicas.drives(row) && live->unwritten == 0 &&
        !context_.replicas.lives(row.replica) && taking_over_.insert(row.replica).second) {
      group_.spawn(take_over(row.replica));
    }
  }
}

Task<void> Lifecycle::take_over(std::string from) {
  auto write = [this, &from] { return context_.store.take_over(from, context_.replicas.id()); };
  auto rows = co_await context_.pool.run(std::move(write));
  if (!rows) {
    context_.log.warning("the work of a gateway that is gone is not taken over yet",
                         {{"replica", from}, {"error", rows.error().message}});
    taking_over_.erase(from);
    co_return;
  }
  context_.log.info("the work of a gateway that is gone is taken over",
                    {{"replica", from}, {"sandboxes", uint64_t{rows->size()}}});
  for (SandboxRow& row : *rows) {
    take(std::move(row));
  }
  // What it had finished and this one has not heard of.
  std::vector<std::string> left;
  for (const auto& [id, live] : context_.live.all()) {
    if (live->row.replica == from && needs_work(live->row)) {
      left.push_back(id);
    }
  }
  co_await refresh(std::move(left));
  // What it made at the engine and did not come to remove.
  co_await reconcile();
  taking_over_.erase(from);
}

// The store says whether it is so, and to one of those who ask.
Task<void> Lifecycle::expire_in_store(LivePtr live, std::string reason) {
  if (std::exchange(live->expiring, true)) {
    co_return;
  }
  co_await context_.journal.flush();
  store::StateChange change = ending(live->row, reason, context_.now_ms());
  change.replica = context_.replicas.id();
  auto write = [this, &live, &change] {
    return context_.store.set_state(live->row.team, live->row.id, change);
  };
  const auto changed = co_await context_.pool.run(std::move(write));
  if (!changed) {
    context_.log.error("the end of a sandbox could not be stored",
                       {{"sandbox", live->row.id}, {"error", changed.error().message}});
    co_await context_.loop.sleep_until(net::Deadline::after(kStorePause));
  } else {
    if (changed->applied && change.to == SandboxState::deleting) {
      context_.audit.record_own(live->row.team, {.event = audit_event::kExpire,
                                                 .sandbox = live->row.id,
                                                 .details = {{"reason", reason}}});
    } else if (changed->applied) {
      context_.telemetry.failed(reason);
    }
    take(changed->sandbox);
  }
  live->expiring = false;
  leases_.note(live);
}

}  // namespace service
