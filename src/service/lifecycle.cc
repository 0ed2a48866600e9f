#include "service/lifecycle.h"

#include <algorithm>
#include <vector>

#include "base/fault.h"
#include "service/sealing.h"
#include "wire/container_json.h"
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

Result<base::Secret> open_environment(const SecretBox& secrets, const SandboxRow& row) {
  return secrets.unseal(row.environment_sealed,
                        seal_purpose(store::SealedKind::environment, row.id));
}

}  // namespace

std::string time_out_message(std::string_view reason) {
  return reason == "start_timeout" ? "the sandbox did not start in time"
                                   : "no quota became free in time";
}

Lifecycle::Lifecycle(Context& context, const Registries& registries, LifecycleOptions options)
    : context_(context),
      registries_(registries),
      options_(options),
      leases_(context,
              [this](const LivePtr& live, const std::string& reason) { expire(live, reason); }),
      admission_(context, options.total,
                 {.changed = [this](const SandboxRow& row) { take(row); },
                  .preempted = [this](const SandboxRow& row) { preempt(row); },
                  .too_late = [this](const LivePtr& live) { group_.spawn(remove_failed(live)); }}),
      group_(context.loop) {}

Task<Result<void>> Lifecycle::load() {
  co_await leases_.follow_clock();
  auto read = [this] { return context_.store.all_live_sandboxes(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  for (SandboxRow& row : rows) {
    const LivePtr live = context_.live.add(std::move(row));
    if (live->row.state == SandboxState::ready) {
      from_before_.insert(live->row.id);
    } else if (live->row.state == SandboxState::queued) {
      admission_.enqueue(live);
    }
    leases_.take_up(live);
  }
  auto drained = [this] { return context_.store.drained_teams(); };
  CO_ASSIGN_OR_RETURN(drained_, co_await context_.pool.run(std::move(drained)));
  co_return Result<void>{};
}

void Lifecycle::start() {
  group_.spawn(follow());
  group_.spawn(leases_.watch_due());
  group_.spawn(leases_.write_renewals());
  group_.spawn(admission_.run());
  context_.teams.on_change([this] { admission_.look_again(); });
  admission_.look_again();
  for (const std::string& team : drained_) {
    end_all(team, "team_drained");  // what a killed process had not come to
  }
}

Task<void> Lifecycle::stop() {
  context_.teams.on_change({});
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

// What a compose file has become.
Result<std::vector<model::ContainerSpec>> Lifecycle::containers_of(const SandboxRow& row) const {
  ASSIGN_OR_RETURN(const auto plain, open_environment(context_.secrets, row));
  ASSIGN_OR_RETURN(const auto value, wire::json::parse(plain.reveal()));
  if (!value.is_array()) {
    return base::fail(ErrorCode::internal, "the containers of ", row.id, " are broken");
  }
  ASSIGN_OR_RETURN(auto containers, wire::parse_containers(value.get_array()));
  for (model::ContainerSpec& container : containers) {
    ASSIGN_OR_RETURN(container.registry, registries_.access(row.team, container.image));
  }
  return containers;
}

Result<model::SandboxSpec> Lifecycle::spec_of(const SandboxRow& row) const {
  model::SandboxSpec spec;
  spec.id = row.id;
  spec.resources = row.resources;
  spec.network = row.network;
  spec.no_new_privileges = row.no_new_privileges;
  spec.always_pull = row.always_pull;
  if (!row.containers.empty()) {
    ASSIGN_OR_RETURN(spec.containers, containers_of(row));
    return spec;
  }
  ASSIGN_OR_RETURN(spec.registry, registries_.access(row.team, row.image));
  model::ContainerSpec main;
  main.image = row.image;
  main.user = row.user;
  main.workdir = row.workdir;
  main.run_entrypoint = row.run_entrypoint;
  main.await_credentials = row.run_entrypoint && credentials_ != nullptr;
  if (!row.environment_sealed.empty()) {
    ASSIGN_OR_RETURN(const auto plain, open_environment(context_.secrets, row));
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
  if (live->row.state == SandboxState::queued) {
    admission_.enqueue(live);
    return;
  }
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
  for (model::ContainerSpec& container : spec->containers) {
    if (container.service) {
      container.service->files.clear();  // ServiceStart's
    }
  }
  const auto status = co_await context_.engine.create(std::move(*spec));
  base::fault_point("gateway.create.after_engine");
  live->creating = false;
  live->changed.notify();
  if (live->row.state != SandboxState::starting) {
    // A removal waits for `creating` and goes on; another gateway's may have been faster.
    if (live->row.state == SandboxState::deleted && context_.replicas.shared()) {
      group_.spawn(remove_unknown(live->row.id));
    }
    co_return;
  }
  if (status) {
    apply_status(live, *status);
    co_return;
  }
  // A reason is the sandbox's own, whatever the code: nobody tries that again by himself.
  const std::string reason = detail(status.error(), "reason");
  if (!reason.empty() || !is_passing(status.error())) {
    fail(live, reason.empty() ? "start_failed" : reason, status.error().message);
  }
  // Otherwise follow() hears of it too, and reconcile() creates it again.
}

void Lifecycle::record(const LivePtr& live, store::StateChange change, std::function<void()> then) {
  change.replica = context_.replicas.id();
  const auto stored = std::make_shared<std::optional<store::Changed>>();
  auto write = [team = live->row.team, id = live->row.id, change = std::move(change),
                stored](store::Store& rows) -> Result<void> {
    ASSIGN_OR_RETURN(*stored, rows.set_state(team, id, change));
    return {};
  };
  auto done = [this, live, stored, then = std::move(then)] {
    --live->unwritten;
    if (*stored) {
      note_stored(live, **stored);
    }
    live->note_recorded();
    if (then) {
      then();
    }
  };
  ++live->unwritten;
  context_.journal.append({.write = std::move(write), .then = std::move(done)});
}

void Lifecycle::record_event(const LivePtr& live, std::string type, std::string reason,
                             std::string message) {
  message.resize(std::min(message.size(), kMessageBytesMax));
  auto write = [team = live->row.team, id = live->row.id,
                event = make_event(context_.now_ms(), std::move(type), std::move(reason),
                                   std::move(message))](store::Store& rows) -> Result<void> {
    RETURN_IF_ERROR(rows.append_event(team, id, event));
    return {};
  };
  auto then = [live] { live->note_recorded(); };
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
  context_.telemetry.became_ready(row);
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
  if (row.state != SandboxState::queued && row.state != SandboxState::starting &&
      row.state != SandboxState::ready) {
    return;
  }
  // Where others write too, it must still be what it is here; else the table may be behind.
  const std::vector<SandboxState> from =
      context_.replicas.shared()
          ? std::vector{row.state}
          : std::vector{SandboxState::queued, SandboxState::starting, SandboxState::ready};
  const bool is_ours = row.state != SandboxState::starting || context_.replicas.drives(row);
  admission_.forget(live);
  message.resize(std::min(message.size(), kMessageBytesMax));
  context_.log.info("sandbox failed",
                    {{"sandbox", row.id}, {"reason", reason}, {"message", message}});
  row.state = SandboxState::failed;
  context_.telemetry.failed(reason);
  row.reason = reason;
  row.message = message;
  live->changed.notify();
  leases_.note(live);
  store::StateChange change{
      .from = from, .to = SandboxState::failed, .reason = reason, .message = message};
  const int64_t now = context_.now_ms();
  if (reason == "out_of_memory") {
    change.events.push_back(make_event(now, "out_of_memory"));
  }
  change.events.push_back(make_event(now, "failed", std::move(reason), std::move(message)));
  record(live, std::move(change));
  if (is_ours) {
    row.replica = context_.replicas.id();
    // What is left of it at the engine serves nobody.
    group_.spawn(remove_failed(live));
  }
}

// The store has it as failed already: what it had borrowed was reclaimed.
void Lifecycle::preempt(const SandboxRow& row) {
  context_.log.info("sandbox preempted", {{"sandbox", row.id}, {"reason", row.message}});
  context_.audit.record_own(
      row.team,
      {.event = audit_event::kExpire, .sandbox = row.id, .details = {{"reason", row.reason}}});
  base::fault_point("gateway.reclaim.decided");
  take(row);
}

Task<Result<void>> Lifecycle::remove(LivePtr live, std::string reason) {
  SandboxRow& row = live->row;
  if (row.state == SandboxState::deleting || row.state == SandboxState::deleted) {
    co_return Result<void>{};
  }
  row.state = SandboxState::deleting;
  row.reason = reason;
  ++live->unwritten;
  admission_.forget(live);
  live->changed.notify();
  co_await context_.journal.flush();
  const store::StateChange change{.from = {SandboxState::queued, SandboxState::starting,
                                           SandboxState::ready, SandboxState::failed},
                                  .to = SandboxState::deleting,
                                  .reason = reason,
                                  .replica = context_.replicas.id(),
                                  .events = {make_event(context_.now_ms(), "deleting", reason)}};
  auto write = [this, &row, &change] { return context_.store.set_state(row.team, row.id, change); };
  base::fault_point("gateway.delete.before_store");
  const auto written = co_await context_.pool.run(std::move(write));
  base::fault_point("gateway.delete.after_store");
  --live->unwritten;
  if (!written) {
    live->note_recorded();
    group_.spawn(remove_at_engine(live));
    co_return std::unexpected(written.error());
  }
  note_stored(live, *written);
  live->note_recorded();
  if (row.state == SandboxState::deleting) {
    drive(live);
  }
  co_return Result<void>{};
}

// Waits for a start under way, then asks the engine until it has removed it; false: cancelled. One
// that was never admitted the engine does not know.
Task<bool> Lifecycle::remove_until_gone(LivePtr live) {
  while (live->creating) {
    const auto wake = co_await live->changed.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return false;
    }
  }
  while (live->row.admitted_ms != 0) {
    const auto removed = co_await context_.engine.remove(live->row.id);
    base::fault_point("gateway.delete.after_engine");
    if (removed) {
      break;
    }
    context_.log.warning("sandbox not removed yet",
                         {{"sandbox", live->row.id}, {"error", removed.error().message}});
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kRetryPause));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return false;
    }
  }
  co_return true;
}

Task<void> Lifecycle::remove_at_engine(LivePtr live) {
  if (std::exchange(live->removing, true)) {
    co_return;
  }
  if (!co_await remove_until_gone(live)) {
    live->removing = false;
    co_return;
  }
  const int64_t now = context_.now_ms();
  live->row.state = SandboxState::deleted;
  live->row.deleted_ms = now;
  context_.live.erase(live->row.id);
  leaving_.insert(live->row.id);
  live->changed.notify();
  // From any state: the store may not have answered when it was to be marked.
  record(live,
         {.from = {SandboxState::queued, SandboxState::starting, SandboxState::ready,
                   SandboxState::failed, SandboxState::deleting},
          .to = SandboxState::deleted,
          .deleted_ms = now,
          .events = {make_event(now, "deleted", live->row.reason)}},
         [this, id = live->row.id] {
           leaving_.erase(id);
           admission_.look_again();
         });
}

// A failed one stays in the table; what it had at the engine goes, then its quota is free.
Task<void> Lifecycle::remove_failed(LivePtr live) {
  if (std::exchange(live->clearing, true)) {
    co_return;
  }
  const bool gone = co_await remove_until_gone(live);
  live->clearing = false;
  if (!gone || !live->row.holds_quota || live->row.state != SandboxState::failed) {
    co_return;  // deleted meanwhile: that gives it back
  }
  base::fault_point("gateway.reclaim.ended");
  live->row.holds_quota = false;
  ++live->unwritten;
  context_.live.note_change();
  auto write = [team = live->row.team, id = live->row.id](store::Store& rows) -> Result<void> {
    RETURN_IF_ERROR(rows.release_quota(team, id));
    base::fault_point("gateway.reclaim.released");
    return {};
  };
  auto then = [this, live] {
    --live->unwritten;
    admission_.look_again();
  };
  context_.journal.append({.write = std::move(write), .then = std::move(then)});
}

void Lifecycle::expire(const LivePtr& live, const std::string& reason) {
  const bool is_time_out = reason == "start_timeout" || reason == "queue_timeout";
  // Alone it knows of every renewal, but not of what it decides at this moment in the store.
  if (!context_.replicas.alone() || (is_time_out && context_.replicas.shared())) {
    group_.spawn(expire_in_store(live, reason));
    return;
  }
  if (is_time_out) {
    fail(live, reason, time_out_message(reason));
    return;
  }
  context_.audit.record_own(
      live->row.team,
      {.event = audit_event::kExpire, .sandbox = live->row.id, .details = {{"reason", reason}}});
  group_.spawn(store_expiry(live, reason));
}

int64_t Lifecycle::end_all(std::string_view team, const std::string& reason) {
  int64_t ending = 0;
  for (const auto& [id, live] : context_.live.all()) {
    if (live->row.team == team && live->row.state != SandboxState::deleting) {
      expire(live, reason);
      ++ending;
    }
  }
  return ending;
}

Task<void> Lifecycle::store_expiry(LivePtr live, std::string reason) {
  if (const auto removed = co_await remove(live, std::move(reason)); !removed) {
    context_.log.error("a removal could not be stored",
                       {{"sandbox", live->row.id}, {"error", removed.error().message}});
  }
}

}  // namespace service
