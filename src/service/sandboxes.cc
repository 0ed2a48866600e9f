#include "service/sandboxes.h"

#include "base/fault.h"
#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

constexpr int64_t kMsPerSecond = 1000;
constexpr int64_t kIdempotencyWindowMs = int64_t{24} * 3600 * kMsPerSecond;
// A runaway client is stopped before the host is; an operator's quota comes with teams.
constexpr size_t kLiveMax = 20'000;

std::unexpected<base::Error> not_found(std::string_view id) {
  return base::fail(ErrorCode::not_found, "sandbox '", id, "' does not exist");
}

bool is_settled(SandboxState state) {
  return state == SandboxState::ready || state == SandboxState::failed ||
         state == SandboxState::deleted;
}

std::string environment_json(const model::EnvironmentMap& environment) {
  wire::json::Object object;
  for (const auto& [name, value] : environment) {
    object[name] = value;
  }
  return wire::json::serialize(object);
}

}  // namespace

LivePtr Sandboxes::find_live(const Caller& caller, const std::string& id) const {
  LivePtr live = context_.live.find(id);
  return live && live->row.team == caller.team ? live : nullptr;
}

SandboxRow Sandboxes::new_row(const Caller& caller, const CreateRequest& request) {
  const int64_t now = context_.now_ms();
  const model::ContainerSpec& main = request.spec.containers.front();
  SandboxRow row;
  row.id = base::new_id(context_.random, "sbx");
  row.team = caller.team;
  row.owner = caller.subject;
  row.state = SandboxState::starting;
  row.image = main.image;
  row.resources = request.spec.resources;
  row.labels = request.labels;
  if (!main.environment.empty()) {
    row.environment_sealed = context_.secrets.seal(environment_json(main.environment), row.id);
  }
  row.user = main.user;
  row.workdir = main.workdir;
  row.network = request.spec.network;
  row.no_new_privileges = request.spec.no_new_privileges;
  row.always_pull = request.spec.always_pull;
  row.lease_sec = request.lease_sec;
  row.max_lifetime_sec = request.max_lifetime_sec;
  row.created_ms = now;
  row.admitted_ms = now;
  row.last_activity_ms = now;
  row.start_deadline_ms = now + context_.team.start_max_sec * kMsPerSecond;
  row.max_lifetime_ms = now + request.max_lifetime_sec * kMsPerSecond;
  return row;
}

Task<Result<Created>> Sandboxes::create(Caller caller, std::string body,
                                        std::optional<IdempotencyKey> key) {
  CO_ASSIGN_OR_RETURN(const Capacity capacity, lifecycle_.capacity());
  CO_ASSIGN_OR_RETURN(const CreateRequest request, parse_create(body, context_.team, capacity));
  if (context_.live.all().size() >= kLiveMax) {
    co_return base::fail(ErrorCode::overloaded, "more than ", kLiveMax, " sandboxes");
  }
  const SandboxRow row = new_row(caller, request);
  const std::vector<store::Event> events{{.at_ms = row.created_ms, .type = "created"},
                                         {.at_ms = row.admitted_ms, .type = "admitted"}};
  std::optional<store::Idempotency> idempotency;
  if (key) {
    idempotency = {.key = std::move(key->key),
                   .request_digest = std::move(key->body_digest),
                   .window_ms = kIdempotencyWindowMs};
  }
  auto insert = [this, &row, &events, &idempotency] {
    return context_.store.insert_sandbox(row.team, row, events, idempotency);
  };
  base::fault_point("gateway.create.before_insert");
  CO_ASSIGN_OR_RETURN(auto inserted, co_await context_.pool.run(std::move(insert)));
  base::fault_point("gateway.create.after_insert");
  if (!inserted.fresh) {
    co_return co_await repeat(std::move(inserted.sandbox));
  }
  ++creates_;
  const LivePtr live = context_.live.add(row);
  lifecycle_.begin(live);
  co_return Created{.row = live->row};
}

// What an idempotency key made before: as it is now.
Task<Result<Created>> Sandboxes::repeat(SandboxRow row) {
  const LivePtr live = context_.live.find(row.id);
  co_return Created{.row = live ? live->row : std::move(row), .fresh = false};
}

Task<Result<SandboxRow>> Sandboxes::get(Caller caller, std::string id, bool archived) {
  if (const LivePtr live = find_live(caller, id)) {
    co_return live->row;
  }
  if (!archived) {
    co_return not_found(id);
  }
  co_await context_.journal.flush();
  auto find = [this, &caller, &id] { return context_.store.find_sandbox(caller.team, id, true); };
  co_return co_await context_.pool.run(std::move(find));
}

Task<Result<SandboxRow>> Sandboxes::wait_settled(Caller caller, std::string id, bool archived,
                                                 net::Deadline deadline) {
  const LivePtr live = find_live(caller, id);
  if (!live) {
    co_return co_await get(std::move(caller), std::move(id), archived);
  }
  while (!is_settled(live->row.state)) {
    const auto wake = co_await live->changed.wait(deadline);
    if (wake != net::EventLoop::Wake::ready) {
      break;
    }
  }
  co_return live->row;
}

Task<Result<SandboxPage>> Sandboxes::list(Caller caller, SandboxFilter filter) {
  co_await context_.journal.flush();
  auto read = [this, &caller, &filter] {
    return context_.store.list_sandboxes(caller.team, filter);
  };
  CO_ASSIGN_OR_RETURN(auto page, co_await context_.pool.run(std::move(read)));
  for (SandboxRow& row : page.items) {
    // Leases are newer here.
    if (const LivePtr live = context_.live.find(row.id)) {
      row = live->row;
    }
  }
  co_return page;
}

Task<Result<SandboxRow>> Sandboxes::patch(Caller caller, std::string id, std::string body) {
  CO_ASSIGN_OR_RETURN(auto use_of, use(caller, id));
  const LivePtr live = use_of.live();
  CO_ASSIGN_OR_RETURN(const PatchRequest request, parse_patch(body, context_.team));
  store::SandboxPatch patch{
      .labels = request.labels, .lease_sec = request.lease_sec, .network = request.network};
  if (request.lease_sec) {
    patch.lease_expires_ms = context_.now_ms() + *request.lease_sec * kMsPerSecond;
    patch.events.push_back({.at_ms = context_.now_ms(), .type = "lease_renewal"});
  }
  if (request.network && *request.network != live->row.network) {
    CO_RETURN_IF_ERROR(co_await context_.engine.set_network(id, *request.network));
  }
  co_await context_.journal.flush();
  auto write = [this, &caller, &id, &patch] {
    return context_.store.patch_sandbox(caller.team, id, patch);
  };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  SandboxRow& row = live->row;
  row.labels = request.labels.value_or(row.labels);
  row.network = request.network.value_or(row.network);
  if (request.lease_sec) {
    row.lease_sec = *request.lease_sec;
    row.lease_expires_ms = *patch.lease_expires_ms;
    ++live->events_seen;
    live->recorded.notify();
  }
  lifecycle_.leases().note(live);
  co_return row;
}

Task<Result<void>> Sandboxes::remove(Caller caller, std::string id) {
  const LivePtr live = find_live(caller, id);
  if (!live) {
    co_return not_found(id);
  }
  co_return co_await lifecycle_.remove(live, "deleted_by_user");
}

Task<bool> Sandboxes::wait_gone(LivePtr live, net::Deadline deadline) {
  while (live->row.state != SandboxState::deleted) {
    const auto wake = co_await live->changed.wait(deadline);
    if (wake != net::EventLoop::Wake::ready) {
      break;
    }
  }
  co_return live->row.state == SandboxState::deleted;
}

Task<Result<std::vector<SandboxEvent>>> Sandboxes::events(Caller caller, std::string id,
                                                          int64_t after, int64_t limit) {
  co_await context_.journal.flush();
  auto read = [this, &caller, &id, after, limit] {
    return context_.store.list_events(caller.team, id, after, limit);
  };
  co_return co_await context_.pool.run(std::move(read));
}

Result<Leases::Use> Sandboxes::use(const Caller& caller, const std::string& id) {
  LivePtr live = find_live(caller, id);
  if (!live) {
    return not_found(id);
  }
  if (live->row.state != SandboxState::ready) {
    auto error =
        base::fail(ErrorCode::not_ready, "the sandbox is ", model::to_string(live->row.state));
    error.error().details.emplace_back("state", model::to_string(live->row.state));
    return error;
  }
  return Leases::Use(lifecycle_.leases(), std::move(live));
}

Task<Result<AgentChannel>> Sandboxes::connect(std::string id) {
  CO_ASSIGN_OR_RETURN(auto connection, co_await context_.engine.connect(id));
  co_return AgentChannel(context_.engine, std::move(id), std::move(connection));
}

base::Error Sandboxes::agent_error(const Live& live, const base::Error& cause) {
  if (live.row.state != SandboxState::ready) {
    return base::Error{.code = ErrorCode::not_ready,
                       .message = base::cat("the sandbox is ", model::to_string(live.row.state)),
                       .details = {{"state", std::string(model::to_string(live.row.state))},
                                   {"reason", live.row.reason}}};
  }
  if (cause.code == ErrorCode::unavailable) {
    return cause;
  }
  return base::Error{.code = ErrorCode::agent_failed,
                     .message = base::cat("the sandbox's agent failed: ", cause.message)};
}

Task<Result<void>> Sandboxes::check() {
  auto ask = [this] { return context_.store.check(); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(ask)));
  co_return co_await context_.engine.check();
}

}  // namespace service
