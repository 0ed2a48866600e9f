#include "service/builds.h"

#include <algorithm>

#include "base/fault.h"
#include "base/sys.h"
#include "model/image_reference.h"
#include "service/build_names.h"
#include "service/create_request.h"

namespace service {
namespace {

using base::cat;
using base::ErrorCode;
using base::Result;
using net::Task;
using wire::json::Object;

constexpr base::Milliseconds kAgentPatience{20'000};
// A builder's root is copied into the image store at its first start.
constexpr base::Milliseconds kBuilderPatience{180'000};
constexpr base::Milliseconds kReadyLook{20};
// Whoever drives a build says so this often; after the longer time another gateway takes it over.
constexpr base::Milliseconds kClaimRenewal{3'000};
constexpr int64_t kClaimMs = 12'000;
constexpr base::Milliseconds kWaitLook{500};
constexpr int64_t kMsPerSecond = 1000;
constexpr int kLooksPerSweep = 10;  // idle builders are looked for every half minute

bool is_over(const BuildRow& build) { return build.state != "queued" && build.state != "running"; }

std::vector<std::string> own_teams(const Caller& caller) {
  std::vector<std::string> out{caller.team};
  for (const Membership& membership : caller.memberships) {
    if (membership.team != caller.team) {
      out.push_back(membership.team);
    }
  }
  return out;
}

std::string job_text(const BuildOptions& options, bool has_secrets) {
  Object arguments;
  for (const auto& [name, value] : options.arguments) {
    arguments[name] = value;
  }
  return wire::json::serialize(Object{{"dockerfile", options.dockerfile},
                                      {"target", options.target},
                                      {"platform", options.platform},
                                      {"args", std::move(arguments)},
                                      {"secrets", has_secrets}});
}

}  // namespace

Builds::Builds(Context& context, Registries& registries, std::string spool_folder,
               BuildLimits limits)
    : context_(context),
      registries_(registries),
      spool_folder_(std::move(spool_folder)),
      limits_(limits),
      who_(base::new_id(context.random, "gateway")),
      changed_(context.loop),
      group_(context.loop) {}

Result<void> Builds::check_allowed(const Caller& caller) const {
  ASSIGN_OR_RETURN(const TeamPtr team, context_.teams.get(caller.team));
  if (!team->builds) {
    return base::fail(ErrorCode::forbidden, "team '", team->name, "' may not build images");
  }
  return {};
}

Result<base::Fd> Builds::open_spool() const {
  constexpr mode_t kOwnerOnly = 0600;
  return base::sys::open(spool_folder_, O_TMPFILE | O_RDWR, kOwnerOnly);
}

// The build of that digest that needs no new one.
Task<Result<std::optional<BuildRow>>> Builds::known(std::string team, std::string digest) {
  auto read = [this, &team, &digest] { return context_.store.find_build_of_digest(team, digest); };
  auto found = co_await context_.pool.run(std::move(read));
  if (!found) {
    if (found.error().code != ErrorCode::not_found) {
      co_return std::unexpected(found.error());
    }
    co_return std::optional<BuildRow>();
  }
  if (found->state == "succeeded") {
    const auto image = co_await context_.engine.images().get(cat(model::kBuildNamePrefix, digest));
    if (!image) {
      co_return std::optional<BuildRow>();  // removed since, to make room
    }
  }
  co_return std::optional(std::move(*found));
}

Task<Result<BuildStart>> Builds::start(Caller caller, BuildOptions options, std::string digest,
                                       base::Fd context, BuildSecrets secrets) {
  CO_RETURN_IF_ERROR(check_allowed(caller));
  CO_ASSIGN_OR_RETURN(auto same, co_await known(caller.team, digest));
  if (same) {
    co_return BuildStart{.build = std::move(*same), .fresh = false};
  }
  BuildRow build{.id = base::new_id(context_.random, "build"),
                 .team = caller.team,
                 .owner = caller.subject,
                 .digest = std::move(digest),
                 .builder = builder_of_team(caller.team),
                 .created_ms = context_.now_ms(),
                 .claimed_by = who_};
  build.claimed_until_ms = context_.now_ms() + kClaimMs;
  driven_.insert(build.id);
  auto insert = [this, &build] {
    return context_.store.insert_build(build, limits_.under_way_max);
  };
  auto inserted = co_await context_.pool.run(std::move(insert));
  if (!inserted || inserted->id != build.id) {
    driven_.erase(build.id);
    CO_RETURN_IF_ERROR(inserted);
    co_return BuildStart{.build = std::move(*inserted), .fresh = false};
  }
  base::fault_point("gateway.build.inserted");
  const Given given{
      .options = std::move(options), .context = std::move(context), .secrets = std::move(secrets)};
  auto sent = co_await give_to_builder(build, given);
  if (!sent && sent.error().code == ErrorCode::disk_full) {
    // What earlier builds left there; where nothing else runs in it, it is made anew.
    broken_.insert(build.builder);
    sent = co_await give_to_builder(build, given);
  }
  if (!sent) {
    co_await clear(build);
    co_await fail(build, "builder_failed", sent.error().message);
    driven_.erase(build.id);
    co_return std::unexpected(sent.error());
  }
  base::fault_point("gateway.build.sent");
  group_.spawn(drive(build));
  co_return BuildStart{.build = std::move(build)};
}

Task<Result<void>> Builds::give_to_builder(const BuildRow& build, const Given& given) {
  CO_RETURN_IF_ERROR(base::with_context(co_await ensure_builder(build.team), "start the builder"));
  co_return base::with_context(co_await send(build, given), "send the context");
}

Task<Result<void>> Builds::send(const BuildRow& build, const Given& given) {
  BuilderAgent agent(context_, build.builder);
  const std::string folder = cat("/state/jobs/", build.id);
  auto sent = co_await agent.put(cat(file_target(folder + "/context"), "&tar=1"), given.context);
  if (!sent && sent.error().code == ErrorCode::agent_failed) {
    sent.error().code = ErrorCode::archive_invalid;  // what it says of a member
  }
  CO_RETURN_IF_ERROR(sent);
  if (!given.secrets.empty()) {
    const base::Secret file = build_secrets_file(given.secrets);
    CO_RETURN_IF_ERROR(
        co_await agent.ask_json("PUT", cat(file_target(secrets_of_build(build.id)), "&mode=0600"),
                                file.reveal(), kAgentPatience));
  }
  // Last: where it is, all is there.
  CO_RETURN_IF_ERROR(co_await agent.ask_json("PUT", file_target(folder + "/job.json"),
                                             job_text(given.options, !given.secrets.empty()),
                                             kAgentPatience));
  co_return Result<void>{};
}

Task<Result<void>> Builds::ensure_builder(std::string team) {
  const std::string id = builder_of_team(team);
  const auto status = co_await context_.engine.get(id);
  const bool is_missing = !status && status.error().code == ErrorCode::not_found;
  if (!status && !is_missing) {
    co_return std::unexpected(status.error());
  }
  const bool is_dead =
      status && (status->state == engine::State::failed || status->state == engine::State::gone);
  const bool is_worn = status && !is_dead && co_await is_worn_out(id);
  if (is_dead || is_worn) {
    CO_RETURN_IF_ERROR(co_await context_.engine.remove(id));
  }
  if (is_missing || is_dead || is_worn) {
    CO_ASSIGN_OR_RETURN(const TeamPtr row, context_.teams.get(team));
    CO_RETURN_IF_ERROR(co_await create_builder(*row, id));
  }
  CO_RETURN_IF_ERROR(co_await wait_ready(id));
  co_return co_await ensure_daemon(id);
}

// Whether it was left full, or without room for a process, and nothing else runs in it than the
// build that asks.
Task<bool> Builds::is_worn_out(std::string id) {
  if (!broken_.contains(id)) {
    co_return false;
  }
  auto read = [this] { return context_.store.builds_under_way(); };
  const auto builds = co_await context_.pool.run(std::move(read));
  if (!builds || std::ranges::count(*builds, id, &BuildRow::builder) > 1) {
    co_return false;
  }
  broken_.erase(id);
  co_return true;
}

Task<Result<void>> Builds::create_builder(const Team& team, std::string id) {
  model::SandboxSpec spec;
  spec.id = id;
  spec.builder = true;
  spec.resources = limits_.resources;
  spec.network = team_network(team);
  model::ContainerSpec main;
  main.image = "builder";  // the engine knows which
  spec.containers.push_back(std::move(main));
  CO_RETURN_IF_ERROR(co_await context_.engine.create(std::move(spec)));
  context_.log.info("builder started", {{"team", team.name}, {"id", id}});
  co_return Result<void>{};
}

Task<Result<void>> Builds::wait_ready(std::string id) {
  const auto deadline = net::Deadline::after(kBuilderPatience);
  for (;;) {
    CO_ASSIGN_OR_RETURN(const auto status, co_await context_.engine.get(id));
    if (status.state == engine::State::ready) {
      co_return Result<void>{};
    }
    if (status.state != engine::State::starting) {
      auto error = base::fail(ErrorCode::unavailable, status.message);
      error.error().details.emplace_back("reason", status.reason);
      co_return error;
    }
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kReadyLook));
    if (wake == net::EventLoop::Wake::cancelled ||
        std::chrono::steady_clock::now() > deadline.time()) {
      co_return base::fail(ErrorCode::unavailable, "it does not get ready");
    }
  }
}

Task<Result<void>> Builds::ensure_daemon(std::string id) {
  constexpr int kOk = 200;
  constexpr int kConflict = 409;
  constexpr int kOkMost = 299;
  BuilderAgent agent(context_, id);
  CO_ASSIGN_OR_RETURN(const auto known,
                      co_await agent.ask("GET", "/sessions/serve", "", kAgentPatience));
  if (known.status == kOk && known.body.contains("\"running\"")) {
    co_return Result<void>{};
  }
  if (known.status == kOk) {
    CO_RETURN_IF_ERROR(co_await agent.ask("DELETE", "/sessions/serve", "", kAgentPatience));
  }
  const Object session{{"argv", {"/bin/sandbox-builder", "serve"}},
                       {"name", "serve"},
                       {"stdin", false},
                       {"env", Object{{"PATH", "/bin"}, {"HOME", "/root"}}}};
  CO_ASSIGN_OR_RETURN(
      const auto started,
      co_await agent.ask("POST", "/sessions", wire::json::serialize(session), kAgentPatience));
  // Another request may have been faster.
  if (started.status > kOkMost && started.status != kConflict) {
    co_return base::fail(ErrorCode::unavailable, "its daemon does not start");
  }
  co_return Result<void>{};
}

Task<Result<BuildRow>> Builds::find(Caller caller, std::string id) {
  auto read = [this, &caller, &id]() -> Result<BuildRow> {
    ASSIGN_OR_RETURN(const std::string team, context_.store.team_of_build(id));
    if (!caller.is_in(team)) {
      return base::fail(ErrorCode::not_found, "build '", id, "' does not exist");
    }
    return context_.store.find_build(team, id);
  };
  co_return co_await context_.pool.run(std::move(read));
}

Task<Result<BuildRow>> Builds::wait(Caller caller, std::string id, net::Deadline deadline) {
  for (;;) {
    CO_ASSIGN_OR_RETURN(auto build, co_await find(caller, id));
    if (is_over(build) || std::chrono::steady_clock::now() >= deadline.time()) {
      co_return build;
    }
    // Another gateway may drive it, of which nothing is heard here.
    const auto look = net::Deadline::after(kWaitLook);
    const auto wake = co_await changed_.wait(look.time() < deadline.time() ? look : deadline);
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the gateway stops");
    }
  }
}

Task<Result<store::Page<BuildRow>>> Builds::list(Caller caller, Listed wanted) {
  std::optional<std::vector<std::string>> teams;
  if (wanted.team) {
    const std::string& team = *wanted.team;
    if ((!wanted.all_teams && !caller.is_in(team)) || !context_.teams.find(team)) {
      co_return base::fail(ErrorCode::not_found, "team '", team, "' does not exist");
    }
    teams = {team};
  } else if (!wanted.all_teams) {
    teams = own_teams(caller);
  }
  auto read = [this, &wanted, &teams] {
    return context_.store.list_builds(teams, wanted.state, wanted.limit, wanted.cursor);
  };
  CO_ASSIGN_OR_RETURN(auto page, co_await context_.pool.run(std::move(read)));
  for (BuildRow& build : page.items) {
    if (!caller.is_in(build.team)) {
      build.step.clear();
      build.message.clear();
    }
  }
  co_return page;
}

Task<Result<BuildRow>> Builds::cancel(Caller caller, std::string id) {
  CO_ASSIGN_OR_RETURN(auto build, co_await find(std::move(caller), id));
  build.state = "cancelled";
  build.reason = "cancelled";
  build.message = "cancelled by its team";
  build.ended_ms = context_.now_ms();
  CO_ASSIGN_OR_RETURN(const bool applied, co_await tell(build));
  if (!applied) {
    co_return base::fail(ErrorCode::conflict, "build '", id, "' has ended");
  }
  cancelled_.insert(id);
  changed_.notify();
  co_return build;
}

Task<Result<Builds::LogPiece>> Builds::read_log(Caller caller, std::string id, uint64_t offset) {
  constexpr size_t kPieceBytesMax = size_t{1} << 20;
  CO_ASSIGN_OR_RETURN(const auto build, co_await find(std::move(caller), id));
  LogPiece piece{.ended = is_over(build)};
  if (piece.ended) {
    auto read = [this, &id] { return context_.store.find_build_log(id); };
    CO_ASSIGN_OR_RETURN(const std::string text, co_await context_.pool.run(std::move(read)));
    piece.text = offset < text.size() ? text.substr(offset) : "";
    co_return piece;
  }
  BuilderAgent agent(context_, build.builder);
  auto text =
      co_await agent.read_some(cat("/sessions/", id, "/logs?offset=", offset), kPieceBytesMax);
  if (text) {
    piece.text = std::move(*text);
  }
  co_return piece;  // not begun yet, or just ended: the next look tells
}

Task<Result<void>> Builds::check_image(std::string team, std::string image) {
  const std::string digest = image.substr(model::kBuildNamePrefix.size());
  auto read = [this, &team, &digest] { return context_.store.find_build_of_digest(team, digest); };
  const auto found = co_await context_.pool.run(std::move(read));
  if (!found || found->state != "succeeded") {
    co_return base::fail(ErrorCode::image_not_allowed, "team '", team, "' has built no image '",
                         image, "'");
  }
  co_return Result<void>{};
}

void Builds::start_following() { group_.spawn(look_after()); }

Task<void> Builds::stop() {
  group_.cancel();
  co_await group_.join();
}

// Says that this process drives what it drives, takes over what nobody does, and gives back what
// serves nobody.
Task<void> Builds::look_after() {
  for (int look = 0;; ++look) {
    if (!driven_.empty()) {
      auto renew = [this] {
        return context_.store.renew_build_claims(who_, context_.now_ms() + kClaimMs);
      };
      co_await context_.pool.run(std::move(renew));
    }
    co_await adopt();
    if (look % kLooksPerSweep == 0) {
      co_await remove_idle();
    }
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kClaimRenewal));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

Task<void> Builds::adopt() {
  auto read = [this] { return context_.store.builds_under_way(); };
  const auto builds = co_await context_.pool.run(std::move(read));
  if (!builds) {
    co_return;
  }
  for (const BuildRow& build : *builds) {
    const int64_t now = context_.now_ms();
    // A store of one gateway has claims of dead processes only.
    const int64_t lapsed_ms =
        context_.replicas.shared() ? now : std::max(now, build.claimed_until_ms + 1);
    if (driven_.contains(build.id) || build.claimed_until_ms >= lapsed_ms) {
      continue;
    }
    auto claim = [this, &build, now, lapsed_ms] {
      return context_.store.claim_build(build.id, who_, lapsed_ms, now + kClaimMs);
    };
    const auto claimed = co_await context_.pool.run(std::move(claim));
    if (claimed && *claimed && driven_.insert(build.id).second) {
      context_.log.info("build taken over", {{"build", build.id}});
      group_.spawn(drive(build));
    }
  }
}

Task<void> Builds::remove_idle() {
  const auto statuses = co_await context_.engine.list();
  auto read = [this] { return context_.store.builds_under_way(); };
  const auto builds = co_await context_.pool.run(std::move(read));
  if (!statuses || !builds) {
    co_return;
  }
  for (const engine::Status& status : *statuses) {
    const std::string& id = status.id;
    const auto uses = [&id](const BuildRow& build) {
      return build.builder == id || id.starts_with(cat(kBasePrefix, build.id));
    };
    if (!belongs_to_builds(id) || std::ranges::any_of(*builds, uses)) {
      continue;
    }
    auto used = [this, &id] { return context_.store.builder_used_ms(id); };
    const auto used_ms = co_await context_.pool.run(std::move(used));
    const bool is_base = id.starts_with(kBasePrefix);
    const bool is_idle = used_ms && *used_ms + limits_.idle_sec * kMsPerSecond < context_.now_ms();
    if (is_base || is_idle || broken_.contains(id) || status.state == engine::State::failed) {
      broken_.erase(id);
      if (co_await context_.engine.remove(id)) {
        context_.log.info("builder removed", {{"id", id}});
      }
    }
  }
}

}  // namespace service
