#include "service/sandboxes.h"

#include <algorithm>

#include "base/fault.h"
#include "model/image_reference.h"
#include "service/agent_call.h"
#include "service/sandbox_keys.h"
#include "service/sealing.h"
#include "wire/container_json.h"
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
// What another gateway tells its clients, it has stored within this time, or its store is stuck.
constexpr base::Milliseconds kOthersPatience{5'000};
// Where its changes are not heard of, it is looked for them so often.
constexpr base::Milliseconds kOthersLook{100};

std::unexpected<base::Error> not_found(std::string_view id) {
  return base::fail(ErrorCode::not_found, "sandbox '", id, "' does not exist");
}

bool is_settled(SandboxState state) {
  return state == SandboxState::ready || state == SandboxState::failed ||
         state == SandboxState::deleted;
}

// What the audit log keeps of a create: what was asked for, never the environment.
AuditRecord created_record(const SandboxRow& row) {
  return {.event = audit_event::kCreate,
          .sandbox = row.id,
          .details = {{"image", audit_text(row.image)},
                      {"millicpus", row.resources.millicpus},
                      {"memory_mb", row.resources.memory_mb},
                      {"storage_mb", row.resources.storage_mb},
                      {"network", audit_text(model::to_text(row.network))},
                      {"lease_sec", row.lease_sec}}};
}

std::vector<std::string> own_teams(const Caller& caller) {
  std::vector<std::string> out{caller.team};
  for (const Membership& membership : caller.memberships) {
    if (membership.team != caller.team) {
      out.push_back(membership.team);
    }
  }
  return out;
}

// What another team may know of a sandbox is that it is there and what it takes.
void hide_from_others(SandboxRow& row) {
  row.labels.clear();
  row.environment_sealed.clear();
  row.public_key.clear();
  row.message.clear();
  row.node.clear();
  row.user.reset();
  row.workdir.reset();
  row.containers.clear();
}

std::string environment_json(const model::EnvironmentMap& environment) {
  wire::json::Object object;
  for (const auto& [name, value] : environment) {
    object[name] = value;
  }
  return wire::json::serialize(object);
}

std::string containers_json(const std::vector<model::ContainerSpec>& containers) {
  wire::json::Array out;
  for (const model::ContainerSpec& container : containers) {
    out.emplace_back(wire::to_json(container));
  }
  return wire::json::serialize(out);
}

}  // namespace

LivePtr Sandboxes::find_live(const Caller& caller, const std::string& id) const {
  LivePtr live = context_.live.find(id);
  return live && live->row.team == caller.team ? live : nullptr;
}

SandboxRow Sandboxes::new_row(const Caller& caller, const Team& team,
                              const CreateRequest& request) {
  const int64_t now = context_.now_ms();
  const model::ContainerSpec& main = request.spec.containers.front();
  SandboxRow row;
  row.id = base::new_id(context_.random, "sbx");
  row.team = team.name;
  row.owner = caller.subject;
  row.state = SandboxState::queued;  // until the store has decided
  row.image = main.image;
  give_key(context_.secrets, row);
  const auto seal = [this, &row](const std::string& plain) {
    return context_.secrets.seal(plain, seal_purpose(store::SealedKind::environment, row.id));
  };
  if (main.service) {
    for (const model::ContainerSpec& container : request.spec.containers) {
      row.containers.push_back({.name = container.name, .image = container.image});
    }
    row.environment_sealed = seal(containers_json(request.spec.containers));
  } else if (!main.environment.empty()) {
    row.environment_sealed = seal(environment_json(main.environment));
  }
  row.resources = request.spec.resources;
  row.labels = request.labels;
  row.user = main.user;
  row.workdir = main.workdir;
  row.run_entrypoint = main.run_entrypoint;
  row.network = request.spec.network;
  row.no_new_privileges = request.spec.no_new_privileges;
  row.always_pull = request.spec.always_pull;
  row.lease_sec = request.lease_sec;
  row.max_lifetime_sec = request.max_lifetime_sec;
  row.created_ms = now;
  row.last_activity_ms = now;
  row.replica = context_.replicas.id();
  return row;
}

// quota_never: more than the team could have with nothing else running, as quotas are now.
Result<void> Sandboxes::check_quota(const Team& team, const model::Resources& resources) const {
  const model::Limits& total = lifecycle_.admission().rules().total;
  std::vector<model::TeamQuota> quotas{quota_of(team)};
  const bool unlimited =
      std::ranges::none_of(total, [](const auto& one) { return one.has_value(); });
  if (unlimited && !quotas.front().limited()) {
    return {};
  }
  for (const auto& [name, other] : context_.teams.all()) {
    if (name != team.name) {
      quotas.push_back(quota_of(*other));
    }
  }
  const model::Amounts wants = model::amounts_of(resources);
  const auto shortage = model::never_fits(model::Quotas(quotas, total), team.name, wants);
  if (!shortage) {
    return {};
  }
  const auto dimension = static_cast<size_t>(shortage->dimension);
  auto error = base::fail(ErrorCode::quota_never, "more than could ever be admitted: ",
                          model::shortage_text(*shortage, wants[dimension]));
  error.error().details.emplace_back("field", model::to_string(shortage->dimension));
  return error;
}

// What an image that is not here yet says of itself, its start will tell.
Task<Result<void>> Sandboxes::check_entrypoint(const model::ContainerSpec& container) {
  if (!container.run_entrypoint) {
    co_return Result<void>{};
  }
  const auto image = co_await context_.engine.images().get(container.image);
  if (!image) {
    co_return Result<void>{};
  }
  CO_ASSIGN_OR_RETURN(const auto config, wire::json::parse_object(image->config_json));
  wire::json::Reader reader(config);
  CO_ASSIGN_OR_RETURN(const auto entrypoint,
                      reader.optional<std::vector<std::string>>("entrypoint"));
  CO_ASSIGN_OR_RETURN(const auto command, reader.optional<std::vector<std::string>>("cmd"));
  if ((!entrypoint || entrypoint->empty()) && (!command || command->empty())) {
    co_return base::fail_field("run_entrypoint", "the image has neither ENTRYPOINT nor CMD");
  }
  co_return Result<void>{};
}

// The one that the body names, else the one the caller acts in; the caller acts in it from here on.
Result<TeamPtr> Sandboxes::team_for(Caller& caller, const wire::json::Object& body) const {
  const auto* named = body.if_contains("team");
  if (named != nullptr && named->is_string()) {
    const std::string name(named->get_string());
    if (!caller.is_in(name) || !context_.teams.find(name)) {
      return base::fail(ErrorCode::not_found, "team '", name, "' does not exist");
    }
    caller.enter(name);
  }
  return context_.teams.get(caller.team);
}

// An image that a team has built is that team's.
Task<Result<void>> Sandboxes::check_build_image(const Team& team, const std::string& image) {
  if (!model::is_build_name(image)) {
    co_return Result<void>{};
  }
  const std::string digest = image.substr(model::kBuildNamePrefix.size());
  auto find = [this, &team, &digest] {
    return context_.store.find_build_of_digest(team.name, digest);
  };
  const auto build = co_await context_.pool.run(std::move(find));
  if (!build || build->state != "succeeded") {
    co_return base::fail(ErrorCode::image_not_allowed, "team '", team.name,
                         "' has built no image '", image, "'");
  }
  co_return Result<void>{};
}

// The images of the builds that a compose file's services name.
Task<Result<std::map<std::string, std::string>>> Sandboxes::find_built_images(
    const Team& team, const wire::json::Object& body) {
  std::map<std::string, std::string> images;
  CO_ASSIGN_OR_RETURN(const auto builds, compose_builds(body));
  for (const auto& [service, id] : builds) {
    auto find = [this, &team, &id] { return context_.store.find_build(team.name, id); };
    const auto build = co_await context_.pool.run(std::move(find));
    const std::string field = base::cat("compose.builds.", service);
    if (!build) {
      co_return base::fail_field(field, "team '", team.name, "' has no build '", id, "'");
    }
    if (build->state != "succeeded") {
      co_return base::fail_field(field, "build '", id, "' is ", build->state);
    }
    images[service] = base::cat(model::kBuildNamePrefix, build->digest);
  }
  co_return images;
}

Task<Result<Created>> Sandboxes::create(Caller caller, std::string body,
                                        std::optional<IdempotencyKey> key) {
  CO_ASSIGN_OR_RETURN(const Capacity capacity, lifecycle_.capacity());
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  CO_ASSIGN_OR_RETURN(const TeamPtr team, team_for(caller, object));
  CO_ASSIGN_OR_RETURN(const auto built, co_await find_built_images(*team, object));
  CO_ASSIGN_OR_RETURN(const CreateRequest request,
                      parse_create(object, {.team = *team,
                                            .capacity = capacity,
                                            .local_images = context_.local_images,
                                            .built_images = &built}));
  if (context_.live.all().size() >= kLiveMax) {
    co_return base::fail(ErrorCode::overloaded, "more than ", kLiveMax, " sandboxes");
  }
  CO_RETURN_IF_ERROR(check_quota(*team, request.spec.resources));
  for (const model::ContainerSpec& container : request.spec.containers) {
    CO_RETURN_IF_ERROR(co_await check_build_image(*team, container.image));
  }
  CO_RETURN_IF_ERROR(co_await check_entrypoint(request.spec.containers.front()));
  const SandboxRow row = new_row(caller, *team, request);
  const std::vector<store::Event> events{{.at_ms = row.created_ms, .type = "created"}};
  std::optional<store::Idempotency> idempotency;
  if (key) {
    idempotency = {.key = std::move(key->key),
                   .request_digest = std::move(key->body_digest),
                   .window_ms = kIdempotencyWindowMs};
  }
  const AuditRow audit = context_.audit.row(caller, created_record(row));
  auto insert = [this, &row, &events, &idempotency, &audit] {
    return context_.store.insert_sandbox(row.team, row, events, idempotency, audit,
                                         lifecycle_.admission().rules());
  };
  base::fault_point("gateway.create.before_insert");
  auto inserted_or = co_await context_.pool.run(std::move(insert));
  base::fault_point("gateway.create.after_insert");
  if (!inserted_or && inserted_or.error().code == ErrorCode::unavailable &&
      context_.replicas.shared()) {
    lifecycle_.look_for(row.id);
  }
  CO_ASSIGN_OR_RETURN(store::Inserted inserted, std::move(inserted_or));
  if (!inserted.fresh) {
    co_return co_await repeat(std::move(inserted.sandbox));
  }
  ++creates_;
  const LivePtr live = context_.live.add(std::move(inserted.sandbox));
  lifecycle_.begin(live);
  lifecycle_.admission().apply(inserted.admission);
  co_return Created{.row = live->row};
}

// What an idempotency key made before: as it is now.
Task<Result<Created>> Sandboxes::repeat(SandboxRow row) {
  // The store has it, and whoever inserted it was perhaps not told so.
  lifecycle_.take(row);
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

Task<Result<std::string>> Sandboxes::team_of(std::string id) {
  if (const LivePtr live = context_.live.find(id)) {
    co_return live->row.team;
  }
  auto find = [this, &id] { return context_.store.team_of_sandbox(id); };
  co_return co_await context_.pool.run(std::move(find));
}

Task<Result<SandboxPage>> Sandboxes::list(Caller caller, ListedTeams wanted, SandboxFilter filter) {
  std::vector<std::string> teams = own_teams(caller);
  if (caller.sandbox && caller.sandbox->only_itself) {
    wanted = {};
    filter.id = caller.sandbox->id;
  }
  if (wanted.all && !caller.is_platform_admin) {
    filter.labels_of = teams;
  }
  if (wanted.only) {
    if ((!wanted.all && !caller.is_in(*wanted.only)) || !context_.teams.find(*wanted.only)) {
      co_return base::fail(ErrorCode::not_found, "team '", *wanted.only, "' does not exist");
    }
    teams = {*wanted.only};
  }
  co_await context_.journal.flush();
  auto read = [this, &wanted, &teams, &filter] {
    return wanted.all && !wanted.only ? context_.store.list_sandboxes_of_all_teams(filter)
                                      : context_.store.list_sandboxes(teams, filter);
  };
  CO_ASSIGN_OR_RETURN(auto page, co_await context_.pool.run(std::move(read)));
  for (SandboxRow& row : page.items) {
    if (!context_.replicas.alone()) {
      lifecycle_.take(row);
    }
    // Leases are newer here.
    if (const LivePtr live = context_.live.find(row.id)) {
      row = live->row;
    }
    if (!caller.is_in(row.team)) {
      hide_from_others(row);
    }
  }
  co_return page;
}

Task<Result<SandboxRow>> Sandboxes::patch(Caller caller, std::string id, std::string body) {
  CO_ASSIGN_OR_RETURN(auto use_of, use(caller, id));
  const LivePtr& live = use_of.live();
  CO_ASSIGN_OR_RETURN(const TeamPtr team, context_.teams.get(live->row.team));
  CO_ASSIGN_OR_RETURN(const PatchRequest request, parse_patch(body, *team));
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
    live->note_recorded();
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

Task<Result<int64_t>> Sandboxes::set_drained(std::string team, bool drained) {
  auto write = [this, &team, drained] {
    return context_.store.set_drained(team, drained, context_.now_ms());
  };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  if (drained && !context_.replicas.alone()) {
    // What others made until then.
    CO_RETURN_IF_ERROR(co_await lifecycle_.refresh_all());
  }
  co_return drained ? lifecycle_.end_all(team, "team_drained") : 0;
}

Task<bool> Sandboxes::wait_gone(LivePtr live, net::Deadline deadline) {
  while (live->row.state != SandboxState::deleted) {
    const auto wake = co_await live->changed.wait(deadline);
    if (wake != net::EventLoop::Wake::ready) {
      break;
    }
  }
  const bool gone = live->row.state == SandboxState::deleted;
  if (gone && !context_.replicas.alone()) {
    co_await context_.journal.flush();  // another gateway knows it, too, when the caller does
  }
  co_return gone;
}

Task<void> Sandboxes::look(std::string id, Look how) {
  if (context_.replicas.alone()) {
    co_return;
  }
  LivePtr live = context_.live.find(id);
  if (how == Look::usable && live && live->row.state == SandboxState::ready) {
    co_return;
  }
  const auto refreshed = co_await lifecycle_.refresh({id});
  if (!refreshed) {
    co_return;  // what is known then holds
  }
  live = context_.live.find(id);
  if (!live || live->row.state != SandboxState::starting) {
    co_return;
  }
  // Whoever drives it (it may have been taken over from one that told its clients of it) is about
  // to say what the engine knows.
  const auto status = co_await context_.engine.get(id);
  const bool is_settled_there =
      status && (status->state == engine::State::ready || status->state == engine::State::failed);
  const auto end = net::Deadline::after(kOthersPatience).time();
  while (is_settled_there && live->row.state == SandboxState::starting &&
         std::chrono::steady_clock::now() < end) {
    const auto wake = co_await live->changed.wait(net::Deadline::after(kOthersLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      break;
    }
    if (wake == net::EventLoop::Wake::deadline) {
      co_await lifecycle_.refresh({id});
    }
  }
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

Task<Result<AgentChannel>> Sandboxes::connect(std::string id, size_t container) {
  std::string address = engine::agent_address(id, container);
  CO_ASSIGN_OR_RETURN(auto connection, co_await context_.engine.connect(address));
  co_return AgentChannel(context_.engine, std::move(address), std::move(connection));
}

Task<std::vector<std::optional<ServiceStatus>>> Sandboxes::containers(SandboxRow row) {
  return container_states(context_, std::move(row));
}

Task<Result<ServiceStatus>> Sandboxes::stop_container(LivePtr live, size_t container) {
  if (live->row.containers.empty()) {
    co_return base::fail(ErrorCode::conflict, "the only container of a sandbox is not stopped");
  }
  CO_ASSIGN_OR_RETURN(
      const auto answer,
      co_await ask_agent_json(context_, engine::agent_address(live->row.id, container),
                              {.method = "POST", .target = "/service/stop"}));
  co_return parse_service_status(answer);
}

Task<Result<Sandboxes::Activity>> Sandboxes::activity(LivePtr live) {
  Activity activity;
  if (live->row.state != SandboxState::ready) {
    co_return activity;
  }
  // Of all containers together.
  for (size_t i = 0; i < std::max<size_t>(live->row.containers.size(), 1); ++i) {
    CO_ASSIGN_OR_RETURN(const auto answer,
                        co_await ask_agent_json(context_, engine::agent_address(live->row.id, i),
                                                {.target = "/activity"}));
    wire::json::Reader reader(answer);
    const auto commands = reader.required<int64_t>("running_commands");
    const auto sessions = reader.required<int64_t>("sessions");
    if (!commands || !sessions || *commands < 0 || *sessions < 0) {
      co_return base::fail(ErrorCode::agent_failed, "the sandbox's agent told no activity");
    }
    activity.running_commands += *commands;
    activity.sessions += *sessions;
  }
  co_return activity;
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
  // Told at once, also while others wait for it.
  if (context_.store.is_waiting()) {
    co_return base::fail(ErrorCode::unavailable, "the store does not answer");
  }
  auto ask = [this] { return context_.store.check(); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(ask)));
  CO_RETURN_IF_ERROR(lifecycle_.capacity());  // else a create would be refused
  co_return co_await context_.engine.check();
}

}  // namespace service
