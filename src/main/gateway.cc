// sandbox-gateway: reads its settings, wires the objects, runs. Nothing else.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/standard_streams.h"
#include "base/sys.h"
#include "config/command_line.h"
#include "config/gateway_options.h"
#include "engine/local/local_engine.h"
#include "main/gateway_commands.h"
#include "main/gateway_fault_points.h"
#include "main/gateway_identity.h"
#include "main/gateway_places.h"
#include "main/operator_files.h"
#include "main/process.h"
#include "server/server.h"
#include "service/browser_sign_in.h"
#include "service/device_sign_in.h"
#include "service/key_watch.h"
#include "service/retention.h"
#include "service/ssh.h"
#include "service/store_follower.h"
#include "store/store_url.h"
#include "tls/front.h"

namespace {

using base::Result;
using gateway_places::key_sources;
using gateway_places::Opened;
using gateway_places::Places;
using gateway_places::places_of;
using gateway_places::sandboxes_folder;
using gateway_places::store_url;

// Compression of what goes over a network: two streams at a time fill one of 1 Gbit/s.
constexpr size_t kCoderThreads = 2;
constexpr mode_t kStateMode = 0700;
// Between two tries to ask a node that is not there for where sandboxes reach the gateway.
constexpr base::Milliseconds kInnerPause{1'000};

base::LogLevel log_level(const config::Settings& settings) {
  const std::string& name = settings.text("log-level");
  return name == "debug"     ? base::LogLevel::debug
         : name == "warning" ? base::LogLevel::warning
         : name == "error"   ? base::LogLevel::error
                             : base::LogLevel::info;
}

service::DefaultSandbox default_sandbox_of(const config::Settings& settings) {
  return {.image = settings.text("default-image"),
          .millicpus = settings.thousandths("default-cpus"),
          .memory_mb = settings.number("default-memory-mb")};
}

service::Limiter::Limits default_limits_of(const config::Settings& settings) {
  constexpr int64_t kBytesPerMb = int64_t{1024} * 1024;
  return {.requests_per_sec = settings.number("rate-limit"),
          .burst = settings.number("rate-burst"),
          .creates = settings.number("concurrent-creates"),
          .streams = settings.number("concurrent-streams"),
          .body_bytes = settings.number("body-limit-mb") * kBytesPerMb};
}

tls::Files tls_files(const config::Settings& settings) {
  return {.certificate = settings.text("tls-cert"), .key = settings.text("tls-key")};
}

config::Problems check_tls(const config::Settings& settings) {
  const tls::Files files = tls_files(settings);
  if (files.certificate.empty() && files.key.empty()) {
    return {};
  }
  if (files.certificate.empty() || files.key.empty()) {
    return {"tls-cert and tls-key go together"};
  }
  if (const auto context = tls::Context::load(files); !context) {
    return {context.error().message};
  }
  return {};
}

// What no option says alone.
Result<service::RegistryMirrors> registry_mirrors_of(const config::Settings& settings) {
  return base::with_context(service::parse_registry_mirrors(settings.text("registry-mirrors")),
                            "registry-mirrors");
}

config::Problems check_settings(const config::Settings& settings) {
  config::Problems problems = check_tls(settings);
  if (const auto sign_in = operator_files::read_sign_in(settings); !sign_in) {
    problems.push_back(sign_in.error().message);
  }
  if (const auto credentials = operator_files::read_credentials(settings); !credentials) {
    problems.push_back(credentials.error().message);
  }
  if (const auto url = store::parse_store_url(store_url(settings, places_of(settings))); !url) {
    problems.push_back(url.error().message);
  }
  if (const auto keys = gateway_places::check_keys(settings); !keys) {
    problems.push_back(keys.error().message);
  }
  if (const auto mirrors = registry_mirrors_of(settings); !mirrors) {
    problems.push_back(mirrors.error().message);
  }
  if (const std::string& file = settings.text("teams-file"); !file.empty()) {
    if (const auto document = operator_files::read_document(file, "teams"); !document) {
      problems.push_back(base::cat("teams-file: ", document.error().message));
    }
  }
  return problems;
}

service::BuildLimits build_limits_of(const config::Settings& settings) {
  service::BuildLimits limits;
  limits.resources.millicpus = settings.thousandths("build-cpus");
  limits.resources.memory_mb = settings.number("build-memory-mb");
  limits.resources.storage_mb = settings.number("build-storage-mb");
  limits.time_sec = settings.number("build-timeout");
  limits.under_way_max = settings.number("builds-per-team");
  limits.idle_sec = settings.number("build-cache-idle");
  return limits;
}

// What all sandboxes of all teams may have together; 0: no limit.
model::Limits total_of(const config::Settings& settings) {
  const auto limit = [&settings](std::string_view name) {
    const int64_t value = settings.number(name);
    return value == 0 ? std::nullopt : std::optional(value);
  };
  const int64_t millicpus = settings.thousandths("total-cpus");
  return {millicpus == 0 ? std::nullopt : std::optional(millicpus), limit("total-memory-mb"),
          limit("total-storage-mb"), limit("total-sandboxes")};
}

// What stands behind the sign-ins of people, where they are configured.
struct SigningIn {
  SigningIn(service::Context& context, service::SignInSettings settings)
      : http(settings.ca_file),
        issuer(context.loop, context.clock, context.log, http,
               {.url = settings.issuer,
                .client_id = settings.client_id,
                .client_secret = settings.client_secret}),
        sign_in(context, issuer, std::move(settings)),
        browsers(context, sign_in),
        devices(sign_in) {}

  oidc::CurlHttp http;
  oidc::Issuer issuer;
  service::SignIn sign_in;
  service::BrowserSignIn browsers;
  service::DeviceSignIn devices;
};

// The object graph, from the bottom up.
struct Gateway {
  Gateway(config::Settings given, const Places& places, Opened opened,
          service::CredentialSettings credentials)
      : settings(std::move(given)),
        data_folder(places.data),
        log(STDERR_FILENO, log_level(settings)),
        store_clock(clock),
        locks(std::move(opened.locks)),
        store(std::move(opened.store)),
        teams(std::move(opened.teams)),
        secrets(std::move(opened.secrets)),
        pool(loop, 1),
        coders(loop, kCoderThreads),
        engine(loop,
               {.node_socket = places.node_socket, .sandboxes_folder = sandboxes_folder(places)},
               log),
        journal(loop, pool, *store, log),
        audit(loop, clock, pool, *store, log),
        live(loop),
        default_sandbox(default_sandbox_of(settings)),
        replicas(loop, clock, store_clock, pool, *store, log,
                 {.id = std::move(opened.replica),
                  .address = settings.text("listen"),
                  .shared = opened.changes.has_value()}),
        context{.loop = loop,
                .clock = clock,
                .store_clock = store_clock,
                .random = random,
                .log = log,
                .store = *store,
                .pool = pool,
                .engine = engine,
                .journal = journal,
                .audit = audit,
                .secrets = secrets,
                .teams = teams,
                .live = live,
                .telemetry = telemetry,
                .replicas = replicas,
                .local_images = settings.boolean("allow-local-images")},
        access(context),
        registries(context, registry_mirrors_of(settings).value_or(service::RegistryMirrors{})),
        team_changes(context, access, registries),
        tokens(context, access),
        lifecycle(context, registries,
                  {.host_restarted = opened.host_restarted, .total = total_of(settings)}),
        sandboxes(context, lifecycle),
        commands(context),
        ssh(context, {.host = settings.text("ssh-host"), .port = settings.number("ssh-port")},
            std::move(opened.ssh_host_key)),
        tickets(context),
        identity(context, settings, std::move(credentials)),
        usage(context),
        images(context, registries, places.data),
        builds(context, registries, places.data, build_limits_of(settings)),
        retention(context, settings.number("retention-days"),
                  settings.number("audit-retention-days")),
        limiter(clock, default_limits_of(settings)),
        token_limits(context, limiter),
        follower(context, std::move(opened.changes), access, registries, token_limits,
                 identity.keys, lifecycle),
        key_watch(context, secrets, registries, lifecycle, key_sources(settings, places).file,
                  std::move(opened.command_keys)),
        overload(loop),
        metrics(server::routes().size()),
        application{.loop = loop,
                    .log = log,
                    .random = random,
                    .access = access,
                    .teams = teams,
                    .team_changes = team_changes,
                    .tokens = tokens,
                    .sandboxes = sandboxes,
                    .commands = commands,
                    .tickets = tickets,
                    .identity = identity.tokens,
                    .exchange = identity.exchange,
                    .usage = usage,
                    .images = images,
                    .builds = builds,
                    .audit = audit,
                    .limiter = limiter,
                    .token_limits = token_limits,
                    .replicas = replicas,
                    .overload = overload,
                    .live = live,
                    .telemetry = telemetry,
                    .pool = pool,
                    .engine = engine,
                    .default_sandbox = default_sandbox,
                    .metrics = metrics,
                    .coders = {.pool = coders},
                    .ssh = &ssh},
        api(application, server::Surface::all),
        metrics_api(application, server::Surface::metrics),
        ssh_api(application, server::Surface::ssh),
        journal_group(loop),
        background(loop),
        group(loop) {}

  Result<uint16_t> listen();
  net::Task<Result<void>> apply_teams_file();
  void take_sign_ins(service::SignInSettings of_people);
  void listen_for_ssh(const Places& places);
  net::Task<Result<void>> start();
  net::Task<void> announce(int signals);
  net::Task<void> serve_inside();
  net::Task<void> hurry(int signals);
  net::Task<void> stop(int signals);
  net::Task<void> run(base::Fd signals);

  config::Settings settings;
  std::string data_folder;
  net::EventLoop loop;
  base::RealClock clock;
  base::KernelRandom random;
  base::Log log;
  service::StoreClock store_clock;
  std::vector<base::Fd> locks;
  std::unique_ptr<store::Store> store;
  service::Teams teams;
  service::SecretBox secrets;
  net::BlockingPool pool;
  net::BlockingPool coders;
  engine::LocalEngine engine;
  service::Journal journal;
  service::Audit audit;
  service::LiveSandboxes live;
  service::Telemetry telemetry;
  service::DefaultSandbox default_sandbox;
  service::Replicas replicas;
  service::Context context;
  service::Access access;
  service::Registries registries;
  service::TeamChanges team_changes;
  service::Tokens tokens;
  service::Lifecycle lifecycle;
  service::Sandboxes sandboxes;
  service::Commands commands;
  service::Ssh ssh;
  service::Tickets tickets;
  GatewayIdentity identity;
  service::UsageHistory usage;
  service::Images images;
  service::Builds builds;
  service::Retention retention;
  service::Limiter limiter;
  service::TokenLimitTable token_limits;
  service::StoreFollower follower;
  service::KeyWatch key_watch;
  server::Overload overload;
  server::Metrics metrics;
  std::optional<SigningIn> signing_in;
  server::Application application;
  server::Server api;
  server::Server metrics_api;
  server::Server ssh_api;
  std::optional<tls::Front> front;  // where HTTPS is configured
  bool failed = false;
  net::TaskGroup journal_group;
  net::TaskGroup background;
  net::TaskGroup group;
};

Result<uint16_t> Gateway::listen() {
  const std::string& address = settings.text("listen");
  if (settings.text("tls-cert").empty()) {
    return api.listen(address);
  }
  const auto adopt = [this](base::Fd plain, const std::string& remote) {
    auto shared = std::make_shared<base::Fd>(std::move(plain));
    loop.post([this, shared, remote] { api.adopt(std::move(*shared), remote); });
  };
  front.emplace(clock, log, adopt);
  return front->listen(address, server::kBacklog, tls_files(settings));
}

// What the operator's file says of teams, before anybody is let in.
net::Task<Result<void>> Gateway::apply_teams_file() {
  const std::string& file = settings.text("teams-file");
  if (file.empty()) {
    co_return Result<void>{};
  }
  CO_ASSIGN_OR_RETURN(auto document, operator_files::read_document(file, "teams"));
  const auto applied =
      base::with_context(co_await team_changes.apply(std::move(document), false), file);
  CO_RETURN_IF_ERROR(applied);
  if (applied->changes_something) {
    wire::json::Array changes;
    for (const service::TeamChange& change : applied->changes) {
      changes.emplace_back(base::cat(change.action, " ", change.team));
    }
    audit.record({.team = std::string(service::kPlatformTeam), .subject = "teams-file"},
                 {.event = "team.apply", .sandbox = {}, .details = {{"changes", changes}}});
  }
  co_return Result<void>{};
}

// Before the loop runs.
void Gateway::take_sign_ins(service::SignInSettings of_people) {
  if (of_people.issuer.empty()) {
    return;
  }
  for (const service::GroupRule& rule : of_people.groups) {
    if (!teams.find(rule.team)) {
      log.warning("a group's team does not exist yet",
                  {{"group", rule.group}, {"team", rule.team}});
    }
  }
  signing_in.emplace(context, std::move(of_people));
  access.use(&signing_in->sign_in);
  application.people = &signing_in->sign_in;
  application.browsers = &signing_in->browsers;
  application.devices = &signing_in->devices;
}

// Before the loop runs. Without a place for its socket there is no SSH.
void Gateway::listen_for_ssh(const Places& places) {
  auto socket = gateway_places::listen_for_ssh(settings, places);
  if (!socket) {
    log.warning("no SSH front can come", {{"error", socket.error().message}});
    return;
  }
  ssh_api.listen(std::move(*socket));
  ssh_api.start();
}

net::Task<Result<void>> Gateway::start() {
  journal_group.spawn(journal.run());
  journal_group.spawn(audit.run());
  CO_RETURN_IF_ERROR(co_await audit.open_spool(data_folder + "/audit.spool"));
  engine.start();
  // The others know of this one before it reads what they change.
  CO_RETURN_IF_ERROR(co_await follower.begin());
  replicas.count_connections([this] { return api.connections(); });
  CO_RETURN_IF_ERROR(co_await replicas.join());
  CO_RETURN_IF_ERROR(co_await access.load());
  CO_RETURN_IF_ERROR(co_await registries.load());
  CO_RETURN_IF_ERROR(co_await token_limits.load());
  CO_RETURN_IF_ERROR(co_await identity.keys.load());
  CO_RETURN_IF_ERROR(co_await key_watch.look());
  access.use(&identity.tokens);
  if (identity.credentials.any()) {
    lifecycle.use(&identity.credentials);
  }
  CO_RETURN_IF_ERROR(co_await lifecycle.load());
  CO_RETURN_IF_ERROR(co_await apply_teams_file());
  lifecycle.start();
  builds.start_following();
  if (signing_in) {
    signing_in->issuer.start();
  }
  background.spawn(follower.run());
  background.spawn(key_watch.run());
  const auto on_look = [this] {
    lifecycle.look_after_orphans();
    follower.catch_up();
  };
  background.spawn(replicas.run(on_look, [this] { follower.read_all(); }));
  background.spawn(retention.run());
  background.spawn(usage.run());
  background.spawn(token_limits.run());
  background.spawn(overload.run());
  background.spawn(identity.keys.run());
  background.spawn(identity.credentials.run());
  background.spawn(serve_inside());
  api.start();
  CO_ASSIGN_OR_RETURN(const uint16_t port, listen());
  if (const std::string& address = settings.text("metrics-listen"); !address.empty()) {
    CO_RETURN_IF_ERROR(metrics_api.listen(address));
  }
  log.info(
      "gateway started",
      {{"listen", settings.text("listen")}, {"port", int64_t{port}}, {"tls", front.has_value()}});
  co_return Result<void>{};
}

// Once the node is there, sandboxes reach this gateway too.
net::Task<void> Gateway::serve_inside() {
  for (bool told = false;; told = true) {
    auto socket = co_await engine.inner_listener();
    if (socket) {
      api.listen_inside(std::move(*socket));
      co_return;
    }
    if (!told) {
      log.info("sandboxes do not reach the gateway yet", {{"error", socket.error().message}});
    }
    const auto wake = co_await loop.sleep_until(net::Deadline::after(kInnerPause));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

// Another signal while requests are waited for.
net::Task<void> Gateway::hurry(int signals) {
  const auto wake =
      co_await loop.wait(signals, net::EventLoop::Direction::read, net::Deadline::never());
  if (wake == net::EventLoop::Wake::ready) {
    process::take_signal(signals);
    api.hurry();
  }
}

// Serves on while it says that it will stop.
net::Task<void> Gateway::announce(int signals) {
  process::take_signal(signals);
  const std::chrono::seconds delay(settings.number("drain-delay"));
  log.info("gateway drains", {{"delay_s", delay.count()}, {"running", api.running()}});
  application.draining = true;
  co_await replicas.drain();
  const auto wake =
      co_await loop.wait(signals, net::EventLoop::Direction::read, net::Deadline::after(delay));
  if (wake == net::EventLoop::Wake::ready) {
    process::take_signal(signals);
  }
  log.info("gateway refuses new work", {{"running", api.running()}});
}

net::Task<void> Gateway::stop(int signals) {
  const std::chrono::seconds patience(settings.number("drain-patience"));
  const auto deadline = net::Deadline::after(patience);
  net::TaskGroup hurrying(loop);
  hurrying.spawn(hurry(signals));
  co_await ssh_api.stop(deadline);
  co_await api.stop(deadline);
  hurrying.cancel();
  co_await hurrying.join();
  if (front) {
    front->stop_accepting();
  }
  co_await metrics_api.stop(deadline);
  co_await builds.stop();
  co_await lifecycle.stop();
  if (signing_in) {
    signing_in->http.stop();
    co_await signing_in->issuer.stop();
  }
  identity.http.stop();
  follower.stop();
  background.cancel();
  co_await background.join();
  journal.stop();
  audit.stop();
  co_await journal_group.join();
  co_await replicas.leave();
  co_await engine.close();
  front.reset();
}

net::Task<void> Gateway::run(base::Fd signals) {
  if (const auto started = co_await start(); !started) {
    log.error("gateway could not start", {{"error", started.error().message}});
    failed = true;
  } else {
    co_await loop.wait(signals.get(), net::EventLoop::Direction::read, net::Deadline::never());
    co_await announce(signals.get());
  }
  co_await stop(signals.get());
  loop.forget(signals.get());
  loop.stop();
}

Result<bool> run_gateway(const config::Settings& settings) {
  process::hide_memory();
  process::raise_file_limit();
  ::umask(0077);
  const Places places = places_of(settings);
  RETURN_IF_ERROR(base::sys::make_folders(places.data, kStateMode));
  base::KernelRandom random;
  base::Log log(STDERR_FILENO, log_level(settings));
  ASSIGN_OR_RETURN(auto sign_in, operator_files::read_sign_in(settings));
  ASSIGN_OR_RETURN(auto credentials, operator_files::read_credentials(settings));
  ASSIGN_OR_RETURN(auto opened, gateway_places::open_places(settings, places, random, log));
  ASSIGN_OR_RETURN(auto signals, process::catch_signals());
  Gateway gateway(settings, places, std::move(opened), std::move(credentials));
  gateway.take_sign_ins(std::move(sign_in));
  gateway.listen_for_ssh(places);
  gateway.group.spawn(gateway.run(std::move(signals)));
  gateway.loop.run();
  // The last coroutine ends in the turn after the one that stopped the loop.
  while (gateway.group.size() > 0) {
    gateway.loop.run_once(base::Milliseconds(10));
  }
  return gateway.failed;
}

}  // namespace

int main(int argc, char** argv) {
  base::hold_standard_streams();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{"--list-fault-points"}) {
    for (const char* name : kFaultPoints) {
      ::puts(name);
    }
    return 0;
  }
  const auto variable = [](const std::string& name) { return ::getenv(name.c_str()); };
  if (!arguments.empty() && arguments.front() == "audit") {
    return gateway_commands::run_audit({arguments.begin() + 1, arguments.end()}, variable);
  }
  const auto asked =
      config::read_command_line(config::gateway_program(), arguments, variable, check_settings);
  if (asked.exit) {
    return *asked.exit;
  }
  if (asked.command == "migrate") {
    return gateway_commands::run_migrate(asked.settings, asked.word);
  }
  if (asked.command == "keys") {
    return gateway_commands::run_keys(asked.settings, asked.word);
  }
  const auto failed = run_gateway(asked.settings);
  if (!failed) {
    ::fprintf(stderr, "sandbox-gateway: %s\n", failed.error().message.c_str());
    return 1;
  }
  return *failed ? 1 : 0;
}
