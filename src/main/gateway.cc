// sandbox-gateway: parses flags, wires the objects, runs. Nothing else.
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/sys.h"
#include "engine/local/local_engine.h"
#include "server/server.h"
#include "service/bootstrap.h"

namespace {

using base::Result;

constexpr std::string_view kUsage =
    R"(sandbox-gateway: the API of sandboxes on this machine (unprivileged)

  --state DIR              all state and sockets under DIR
                           (default: /var/lib/sandbox-gateway and /run/sandbox-gateway)
  --listen ADDRESS:PORT    the API (default 127.0.0.1:8080)
  --metrics-listen A:P     /metrics without a token (default 127.0.0.1:9464; "" for none)
  --node-socket PATH       the node's socket (default RUN/node.sock)
  --allow-local-images     images "dir:/..." and "tar:/..." of the node's disk
  --log-level LEVEL        debug, info (default), warning or error
  --list-fault-points      names at which tests kill it
  --version, --help

Each flag can be given as an environment variable: --node-socket is SANDBOX_GATEWAY_NODE_SOCKET.
)";

constexpr std::array kFaultPoints{"gateway.create.before_insert", "gateway.create.after_insert",
                                  "gateway.create.after_engine",  "gateway.delete.before_store",
                                  "gateway.delete.after_store",   "gateway.delete.after_engine"};

// Requests that run when the process is told to stop have this long to end.
constexpr std::chrono::seconds kStopPatience{10};
constexpr mode_t kStateMode = 0700;

struct Options {
  std::string state;
  std::string listen = "127.0.0.1:8080";
  std::string metrics_listen = "127.0.0.1:9464";
  std::string node_socket;
  bool allow_local_images = false;
  base::LogLevel log_level = base::LogLevel::info;
};

const std::map<std::string, base::LogLevel, std::less<>> kLevels{
    {"debug", base::LogLevel::debug},
    {"info", base::LogLevel::info},
    {"warning", base::LogLevel::warning},
    {"error", base::LogLevel::error}};

std::string environment_name(std::string_view flag) {
  std::string name = "SANDBOX_GATEWAY_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

Result<void> set_option(Options& options, std::string_view name, const std::string& value) {
  if (name == "state") {
    options.state = value;
  } else if (name == "listen") {
    options.listen = value;
  } else if (name == "metrics-listen") {
    options.metrics_listen = value;
  } else if (name == "node-socket") {
    options.node_socket = value;
  } else if (name == "allow-local-images") {
    options.allow_local_images = value != "0" && value != "false";
  } else if (name == "log-level" && kLevels.contains(value)) {
    options.log_level = kLevels.at(value);
  } else {
    return base::fail(base::ErrorCode::invalid_field, "bad option --", name, " '", value, "'");
  }
  return {};
}

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (const char* name :
       {"state", "listen", "metrics-listen", "node-socket", "allow-local-images", "log-level"}) {
    if (const char* value = ::getenv(environment_name(name).c_str()); value != nullptr) {
      RETURN_IF_ERROR(set_option(options, name, value));
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view name = arguments[i];
    if (!name.starts_with("--")) {
      return base::fail(base::ErrorCode::invalid_field, "unexpected argument '", name, "'");
    }
    name.remove_prefix(2);
    std::string value = "1";
    if (const size_t equals = name.find('='); equals != std::string_view::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    } else if (name != "allow-local-images") {
      if (++i == arguments.size()) {
        return base::fail(base::ErrorCode::invalid_field, "--", name, " needs a value");
      }
      value = arguments[i];
    }
    RETURN_IF_ERROR(set_option(options, name, value));
  }
  return options;
}

struct Places {
  std::string run;   // the node's sockets
  std::string data;  // the gateway's own
};

Places places_of(const Options& options) {
  if (options.state.empty()) {
    return {.run = "/run/sandbox-gateway", .data = "/var/lib/sandbox-gateway/gateway"};
  }
  return {.run = options.state + "/run", .data = options.state + "/gateway"};
}

// Each connection and each agent channel is a descriptor.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Whether this is another boot than the one that was noted; notes this one.
Result<bool> note_boot(const std::string& data_folder) {
  constexpr size_t kBytesMax = 256;
  ASSIGN_OR_RETURN(const auto boot,
                   base::sys::read_file("/proc/sys/kernel/random/boot_id", kBytesMax));
  const std::string file = data_folder + "/boot-id";
  const auto noted = base::sys::read_file(file, kBytesMax);
  if (noted && *noted == boot) {
    return false;
  }
  constexpr mode_t kMode = 0600;
  RETURN_IF_ERROR(base::sys::replace_file(file, boot, kMode));
  return noted.has_value();
}

// SIGTERM and SIGINT as a descriptor.
Result<base::Fd> catch_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  base::Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) {
    return base::fail_errno(errno, "signalfd");
  }
  return fd;
}

// The object graph, from the bottom up.
struct Gateway {
  Gateway(const Options& given, const Places& places, std::unique_ptr<store::Store> opened,
          service::SecretBox box, service::Access known, bool host_restarted)
      : options(given),
        log(STDERR_FILENO, given.log_level),
        team({.local_images = given.allow_local_images}),
        store(std::move(opened)),
        secrets(std::move(box)),
        access(std::move(known)),
        pool(loop, 1),
        engine(loop,
               {.node_socket =
                    given.node_socket.empty() ? places.run + "/node.sock" : given.node_socket,
                .sandboxes_folder = places.run + "/sandboxes"},
               log),
        journal(loop, pool, *store, log),
        live(loop),
        context{.loop = loop,
                .clock = clock,
                .random = random,
                .log = log,
                .store = *store,
                .pool = pool,
                .engine = engine,
                .journal = journal,
                .secrets = secrets,
                .team = team,
                .live = live},
        registries(context),
        lifecycle(context, registries, {.host_restarted = host_restarted}),
        sandboxes(context, lifecycle),
        images(context, registries, places.data),
        metrics(server::routes().size()),
        application{.loop = loop,
                    .log = log,
                    .random = random,
                    .access = access,
                    .sandboxes = sandboxes,
                    .images = images,
                    .metrics = metrics},
        api(application, server::Surface::all),
        metrics_api(application, server::Surface::metrics),
        journal_group(loop),
        group(loop) {}

  net::Task<Result<void>> start();
  net::Task<void> stop();
  net::Task<void> run(base::Fd signals);

  Options options;
  net::EventLoop loop;
  base::RealClock clock;
  base::KernelRandom random;
  base::Log log;
  service::Team team;
  std::unique_ptr<store::Store> store;
  service::SecretBox secrets;
  service::Access access;
  net::BlockingPool pool;
  engine::LocalEngine engine;
  service::Journal journal;
  service::LiveSandboxes live;
  service::Context context;
  service::Registries registries;
  service::Lifecycle lifecycle;
  service::Sandboxes sandboxes;
  service::Images images;
  server::Metrics metrics;
  server::Application application;
  server::Server api;
  server::Server metrics_api;
  bool failed = false;
  net::TaskGroup journal_group;
  net::TaskGroup group;
};

net::Task<Result<void>> Gateway::start() {
  journal_group.spawn(journal.run());
  engine.start();
  CO_RETURN_IF_ERROR(co_await registries.load());
  CO_RETURN_IF_ERROR(co_await lifecycle.load());
  lifecycle.start();
  CO_ASSIGN_OR_RETURN(const uint16_t port, api.listen(options.listen));
  if (!options.metrics_listen.empty()) {
    CO_RETURN_IF_ERROR(metrics_api.listen(options.metrics_listen));
  }
  log.info("gateway started", {{"listen", options.listen}, {"port", int64_t{port}}});
  co_return Result<void>{};
}

net::Task<void> Gateway::stop() {
  const auto deadline = net::Deadline::after(kStopPatience);
  co_await api.stop(deadline);
  co_await metrics_api.stop(deadline);
  co_await lifecycle.stop();
  journal.stop();
  co_await journal_group.join();
  co_await engine.close();
}

net::Task<void> Gateway::run(base::Fd signals) {
  if (const auto started = co_await start(); !started) {
    log.error("gateway could not start", {{"error", started.error().message}});
    failed = true;
  } else {
    co_await loop.wait(signals.get(), net::EventLoop::Direction::read, net::Deadline::never());
    log.info("gateway stops");
  }
  co_await stop();
  loop.forget(signals.get());
  loop.stop();
}

Result<bool> run_gateway(const Options& options) {
  raise_file_limit();
  ::umask(0077);
  const Places places = places_of(options);
  RETURN_IF_ERROR(base::sys::make_folders(places.data, kStateMode));
  base::KernelRandom random;
  base::RealClock clock;
  ASSIGN_OR_RETURN(auto store, store::Store::open(places.data + "/gateway.db"));
  RETURN_IF_ERROR(service::make_admin_token(*store, places.data + "/admin.token", random, clock));
  ASSIGN_OR_RETURN(auto access, service::load_access(*store, clock));
  ASSIGN_OR_RETURN(auto box, service::SecretBox::open(places.data + "/secret.key", random));
  ASSIGN_OR_RETURN(const bool host_restarted, note_boot(places.data));
  ASSIGN_OR_RETURN(auto signals, catch_signals());
  Gateway gateway(options, places, std::move(store), std::move(box), std::move(access),
                  host_restarted);
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
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      ::fputs(kUsage.data(), stdout);
      return 0;
    }
    if (argument == "--version") {
      ::puts("sandbox-gateway " SANDBOX_VERSION);
      return 0;
    }
    if (argument == "--list-fault-points") {
      for (const char* name : kFaultPoints) {
        ::puts(name);
      }
      return 0;
    }
  }
  const auto options = parse_options(arguments);
  if (!options) {
    ::fprintf(stderr, "sandbox-gateway: %s\n%s", options.error().message.c_str(), kUsage.data());
    return 2;
  }
  const auto failed = run_gateway(*options);
  if (!failed) {
    ::fprintf(stderr, "sandbox-gateway: %s\n", failed.error().message.c_str());
    return 1;
  }
  return *failed ? 1 : 0;
}
