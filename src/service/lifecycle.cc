#include "service/lifecycle.h"

#include <algorithm>
#include <vector>

#include "base/fault.h"
#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

constexpr int64_t kMsPerSecond = 1000;
// Between two tries to reach an engine that does not answer.
constexpr base::Milliseconds kRetryPause{500};
constexpr size_t kMessageBytesMax = 2000;  // an engine's text in a row

store::Event make_event(int64_t at_ms, std::string type, std::string reason = {},
                        std::string message = {}) {
  return {.at_ms = at_ms,
          .type = std::move(type),
          .reason = std::move(reason),
          .message = std::move(message)};
}

// Errors that say nothing about the sandbox: the engine is to be asked again.
bool is_passing(const base::Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::cancelled ||
         error.code == ErrorCode::deadline_exceeded || error.code == ErrorCode::connection_closed ||
         error.code == ErrorCode::overloaded;
}

std::string detail(const base::Error& error, std::string_view key) {
  const auto found =
      std::ranges::find_if(error.details, [key](const auto& row) { return row.first == key; });
  return found == error.details.end() ? "" : found->second;
}

}  // namespace

Lifecycle::Lifecycle(Context& context, const Registries& registries, LifecycleOptions options)
    : context_(context),
      registries_(registries),
      options_(options),
      leases_(context,
              [this](const LivePtr& live, const std::string& reason) { expire(live, reason); }),
      group_(context.loop) {}

Task<Result<void>> Lifecycle::load() {
  auto read = [this] { return context_.store.all_live_sandboxes(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  for (SandboxRow& row : rows) {
    const LivePtr live = context_.live.add(std::move(row));
    if (live->row.state == SandboxState::ready) {
      from_before_.insert(live->row.id);
    }
    leases_.note(live);
  }
  co_return Result<void>{};
}

void Lifecycle::start() {
  group_.spawn(follow());
  group_.spawn(leases_.watch_due());
  group_.spawn(leases_.write_renewals());
}

Task<void> Lifecycle::stop() {
  group_.cancel();
  co_await group_.join();
  co_await leases_.flush();
}

Result<Capacity> Lifecycle::capacity() const {
  if (capacity_.millicpus == 0) {
    return base::fail(ErrorCode::unavailable, "the engine has not answered yet");
  }
  return capacity_;
}

Task<void> Lifecycle::read_capacity() {
  const auto nodes = co_await context_.engine.nodes();
  if (!nodes) {
    co_return;
  }
  Capacity most;
  for (const engine::NodeInfo& node : *nodes) {
    most.millicpus = std::max(most.millicpus, node.millicpus);
    most.memory_mb = std::max(most.memory_mb, node.memory_mb);
    most.storage_mb = std::max(most.storage_mb, node.storage_mb);
  }
  capacity_ = most;
}

Result<model::SandboxSpec> Lifecycle::spec_of(const SandboxRow& row) const {
  model::SandboxSpec spec;
  spec.id = row.id;
  spec.resources = row.resources;
  spec.network = row.network;
  spec.no_new_privileges = row.no_new_privileges;
  spec.always_pull = row.always_pull;
  ASSIGN_OR_RETURN(spec.registry, registries_.access(row.image));
  model::ContainerSpec main;
  main.image = row.image;
  main.user = row.user;
  main.workdir = row.workdir;
  if (!row.environment_sealed.empty()) {
    ASSIGN_OR_RETURN(const auto plain, context_.secrets.unseal(row.environment_sealed, row.id));
    ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(plain.reveal()));
    for (const auto& field : object) {
      main.environment.emplace(field.key(), std::string(field.value().as_string()));
    }
  }
  spec.containers.push_back(std::move(main));
  return spec;
}

void Lifecycle::begin(const LivePtr& live) {
  leases_.note(live);
  live->creating = true;
  group_.spawn(create_at_engine(live));
}

Task<void> Lifecycle::create_at_engine(LivePtr live) {
  auto spec = spec_of(live->row);
  if (!spec) {
    live->creating = false;
    fail(live, "start_failed", spec.error().message);
    co_return;
  }
  const auto status = co_await context_.engine.create(std::move(*spec));
  base::fault_point("gateway.create.after_engine");
  live->creating = false;
  live->changed.notify();
  if (live->row.state == SandboxState::failed && status) {
    // It failed (start_timeout) before the engine knew it.
    group_.spawn(remove_unknown(live->row.id));
  }
  if (live->row.state != SandboxState::starting) {
    co_return;  // a removal waits for `creating` and goes on
  }
  if (status) {
    apply_status(live, *status);
  } else if (!is_passing(status.error())) {
    const std::string reason = detail(status.error(), "reason");
    fail(live, reason.empty() ? "start_failed" : reason, status.error().message);
  }
  // Otherwise follow() hears of it too, and reconcile() creates it again.
}

void Lifecycle::record(const LivePtr& live, store::StateChange change) {
  auto write = [team = live->row.team, id = live->row.id,
                change = std::move(change)](store::Store& rows) -> Result<void> {
    RETURN_IF_ERROR(rows.set_state(team, id, change));
    return {};
  };
  auto then = [live] {
    ++live->events_seen;
    live->recorded.notify();
  };
  context_.journal.append({.write = std::move(write), .then = std::move(then)});
}

void Lifecycle::record_event(const LivePtr& live, std::string type, std::string reason,
                             std::string message) {
  auto write = [team = live->row.team, id = live->row.id,
                event = make_event(context_.now_ms(), std::move(type), std::move(reason),
                                   message.substr(0, kMessageBytesMax))](
                   store::Store& rows) -> Result<void> {
    RETURN_IF_ERROR(rows.append_event(team, id, event));
    return {};
  };
  auto then = [live] {
    ++live->events_seen;
    live->recorded.notify();
  };
  context_.journal.append({.write = std::move(write), .then = std::move(then)});
}

void Lifecycle::become_ready(const LivePtr& live, const engine::Status& status) {
  SandboxRow& row = live->row;
  const int64_t now = context_.now_ms();
  row.state = SandboxState::ready;
  row.ready_ms = now;
  row.last_activity_ms = now;
  row.lease_expires_ms = now + row.lease_sec * kMsPerSecond;
  row.image_digest = status.image_digest;
  row.node = status.node;
  row.pull_ms = status.pull_ms;
  row.start_ms = status.start_ms;
  live->changed.notify();
  leases_.note(live);
  store::StateChange change{.from = {SandboxState::starting},
                            .to = SandboxState::ready,
                            .image_digest = row.image_digest,
                            .node = row.node,
                            .ready_ms = now,
                            .last_activity_ms = now,
                            .lease_expires_ms = row.lease_expires_ms,
                            .pull_ms = row.pull_ms,
                            .start_ms = row.start_ms};
  if (!std::exchange(live->starting_told, true)) {
    change.events.push_back(make_event(row.admitted_ms, "starting"));
  }
  change.events.push_back(make_event(now, "ready"));
  record(live, std::move(change));
}

void Lifecycle::fail(const LivePtr& live, std::string reason, std::string message) {
  SandboxRow& row = live->row;
  if (row.state != SandboxState::starting && row.state != SandboxState::ready) {
    return;
  }
  message.resize(std::min(message.size(), kMessageBytesMax));
  context_.log.info("sandbox failed",
                    {{"sandbox", row.id}, {"reason", reason}, {"message", message}});
  row.state = SandboxState::failed;
  row.reason = reason;
  row.message = message;
  live->changed.notify();
  leases_.note(live);
  store::StateChange change{.from = {SandboxState::starting, SandboxState::ready},
                            .to = SandboxState::failed,
                            .reason = reason,
                            .message = message};
  const int64_t now = context_.now_ms();
  if (reason == "out_of_memory") {
    change.events.push_back(make_event(now, "out_of_memory"));
  }
  change.events.push_back(make_event(now, "failed", std::move(reason), std::move(message)));
  record(live, std::move(change));
  // What is left of it at the engine serves nobody.
  group_.spawn(remove_unknown(row.id));
}

void Lifecycle::apply_status(const LivePtr& live, const engine::Status& status) {
  const SandboxState state = live->row.state;
  switch (status.state) {
    case engine::State::starting:
      break;
    case engine::State::ready:
      if (state == SandboxState::starting) {
        become_ready(live, status);
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

void Lifecycle::apply(const engine::Change& change) {
  const LivePtr live = context_.live.find(change.status.id);
  if (!live) {
    return;
  }
  if (!change.type.empty() && live->row.state != SandboxState::deleting) {
    const bool is_starting = change.type == "starting";
    if (!is_starting || !std::exchange(live->starting_told, true)) {
      // out_of_memory comes with the failure it explains (fail() records it).
      if (change.type == "pulling" || change.type == "pulled" || is_starting) {
        record_event(live, change.type, "", change.message);
      }
    }
  }
  apply_status(live, change.status);
}

Task<Result<void>> Lifecycle::remove(LivePtr live, std::string reason) {
  SandboxRow& row = live->row;
  if (row.state == SandboxState::deleting || row.state == SandboxState::deleted) {
    co_return Result<void>{};
  }
  row.state = SandboxState::deleting;
  row.reason = reason;
  live->changed.notify();
  co_await context_.journal.flush();
  const store::StateChange change{.from = {SandboxState::queued, SandboxState::starting,
                                           SandboxState::ready, SandboxState::failed},
                                  .to = SandboxState::deleting,
                                  .reason = reason,
                                  .events = {make_event(context_.now_ms(), "deleting", reason)}};
  auto write = [this, &row, &change] { return context_.store.set_state(row.team, row.id, change); };
  base::fault_point("gateway.delete.before_store");
  const auto written = co_await context_.pool.run(std::move(write));
  base::fault_point("gateway.delete.after_store");
  ++live->events_seen;
  live->recorded.notify();
  group_.spawn(remove_at_engine(live));
  if (!written) {
    co_return std::unexpected(written.error());
  }
  co_return Result<void>{};
}

Task<void> Lifecycle::remove_at_engine(LivePtr live) {
  if (std::exchange(live->removing, true)) {
    co_return;
  }
  while (live->creating) {
    const auto wake = co_await live->changed.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      live->removing = false;
      co_return;
    }
  }
  for (;;) {
    const auto removed = co_await context_.engine.remove(live->row.id);
    base::fault_point("gateway.delete.after_engine");
    if (removed) {
      break;
    }
    context_.log.warning("sandbox not removed yet",
                         {{"sandbox", live->row.id}, {"error", removed.error().message}});
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kRetryPause));
    if (wake == net::EventLoop::Wake::cancelled) {
      live->removing = false;
      co_return;
    }
  }
  const int64_t now = context_.now_ms();
  live->row.state = SandboxState::deleted;
  live->row.deleted_ms = now;
  context_.live.erase(live->row.id);
  live->changed.notify();
  record(live, {.from = {SandboxState::deleting},
                .to = SandboxState::deleted,
                .deleted_ms = now,
                .events = {make_event(now, "deleted", live->row.reason)}});
}

// What the engine has and the table does not (or only as failed).
Task<void> Lifecycle::remove_unknown(std::string id) {
  if (!removing_unknown_.insert(id).second) {
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

void Lifecycle::expire(const LivePtr& live, const std::string& reason) {
  if (reason == "start_timeout") {
    fail(live, reason, "the sandbox did not start in time");
    return;
  }
  group_.spawn(store_expiry(live, reason));
}

Task<void> Lifecycle::store_expiry(LivePtr live, std::string reason) {
  if (const auto removed = co_await remove(live, std::move(reason)); !removed) {
    context_.log.error("a removal could not be stored",
                       {{"sandbox", live->row.id}, {"error", removed.error().message}});
  }
}

std::string Lifecycle::missing_reason(const Live& live) const {
  return options_.host_restarted && from_before_.contains(live.row.id) ? "host_restarted"
                                                                       : "agent_lost";
}

Task<bool> Lifecycle::reconcile() {
  // Only what is settled before the engine is asked can be missed in its answer.
  std::set<std::string> settled;
  for (const auto& [id, live] : context_.live.all()) {
    if (!live->creating) {
      settled.insert(id);
    }
  }
  const auto statuses = co_await context_.engine.list();
  engine_answers_ = statuses.has_value();
  if (!statuses) {
    co_return false;
  }
  co_await read_capacity();
  for (const engine::Status& status : *statuses) {
    const LivePtr live = context_.live.find(status.id);
    if (!live || live->row.state == SandboxState::failed) {
      group_.spawn(remove_unknown(status.id));
      continue;
    }
    settled.erase(status.id);
    apply_status(live, status);
    if (live->row.state == SandboxState::deleting) {
      group_.spawn(remove_at_engine(live));
    }
  }
  for (const std::string& id : settled) {
    const LivePtr live = context_.live.find(id);
    if (!live) {
      continue;
    }
    if (live->row.state == SandboxState::starting && !live->creating) {
      begin(live);
    } else if (live->row.state == SandboxState::ready) {
      fail(live, missing_reason(*live), "the sandbox is gone");
    } else if (live->row.state == SandboxState::deleting) {
      group_.spawn(remove_at_engine(live));
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
