// sandbox-node: the privileged process of one machine. Parses flags, wires the node, runs it.
#include "node/node.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/text.h"
#include "node/doctor.h"
#include "node/fault_points.h"
#include "node/spec_json.h"

namespace {

constexpr std::string_view kUsage =
    "usage: sandbox-node --agent PATH --image-helper PATH --gateway-gid GID [--state DIR]\n"
    "         [--shells N] [--storage-pool-mb N] [--storage-driver NAME] [--name-prefix NAME]\n"
    "         [--subnet CIDR] [--id-base N] [--allow-local-images yes|no]\n"
    "       sandbox-node doctor | --list-fault-points | --version\n";
constexpr int kUsageExit = 2;

void print(std::string_view text) {
  [[maybe_unused]] const auto written = base::sys::write_all(STDOUT_FILENO, text);
}
void complain(std::string_view text) {
  [[maybe_unused]] const auto written = base::sys::write_all(STDERR_FILENO, text);
}

template <typename Number>
base::Result<void> set_number(Number& target, std::string_view flag, std::string_view value) {
  const auto number = base::parse_number<Number>(value);
  if (!number) {
    return base::fail_field(flag, flag, " takes a number, not \"", value, "\"");
  }
  target = *number;
  return {};
}

base::Result<void> set_flag(node::NodeOptions& options, std::string_view flag,
                            const std::string& value) {
  if (flag == "--state") {
    options.run_folder = value + "/run";
    options.lib_folder = value + "/lib";
  } else if (flag == "--agent") {
    options.agent = value;
  } else if (flag == "--image-helper") {
    options.image_helper = value;
  } else if (flag == "--storage-driver") {
    options.storage_driver = value;
  } else if (flag == "--name-prefix") {
    options.name_prefix = value;
  } else if (flag == "--subnet") {
    options.subnet = value;
  } else if (flag == "--gateway-gid") {
    return set_number(options.gateway_gid, flag, value);
  } else if (flag == "--shells") {
    return set_number(options.shells, flag, value);
  } else if (flag == "--storage-pool-mb") {
    return set_number(options.storage_pool_mb, flag, value);
  } else if (flag == "--id-base") {
    return set_number(options.id_base, flag, value);
  } else if (flag == "--allow-local-images" && (value == "yes" || value == "no")) {
    options.allow_local_images = value == "yes";
  } else {
    return base::fail_field(flag, "unknown flag or value: ", flag, " ", value);
  }
  return {};
}

base::Result<node::NodeOptions> parse_flags(const std::vector<std::string>& arguments) {
  node::NodeOptions options;
  options.run_folder = "/run/sandbox-gateway";
  options.lib_folder = "/var/lib/sandbox-gateway";
  for (size_t i = 0; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) {
      return base::fail_field(arguments[i], arguments[i], " takes a value");
    }
    RETURN_IF_ERROR(set_flag(options, arguments[i], arguments[i + 1]));
  }
  if (options.agent.empty() || options.image_helper.empty()) {
    return base::fail_field("--agent", "--agent and --image-helper are required");
  }
  return options;
}

int doctor() {
  bool fine = true;
  for (const node::Check& check : node::run_doctor()) {
    print(base::cat(check.ok ? "ok    " : "LACKS ", check.name, ": ", check.message, "\n"));
    if (!check.ok && !check.mend.empty()) {
      print(base::cat("      mend: ", check.mend, "\n"));
    }
    fine = fine && check.ok;
  }
  return fine ? 0 : 1;
}

// Descriptors are what a node with many ready shells needs first.
void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

// TERM and INT as a descriptor of the loop; the sandboxes go on without the node.
base::Fd open_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return base::Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

int serve(node::NodeOptions options) {
  base::Log log(STDERR_FILENO);
  base::RealClock clock;
  ::umask(0022);
  raise_open_files();
  const base::Fd signals = open_signals();
  net::EventLoop loop;
  auto node = node::Node::open(loop, std::move(options), clock, log);
  if (!node) {
    log.error("cannot start", {{"error", node.error().message}});
    return 1;
  }
  loop.watch(signals.get(), net::EventLoop::Direction::read, [&node] { (*node)->stop_soon(); });
  log.info("ready");
  (*node)->run();
  loop.forget(signals.get());
  log.info("stopped");
  return 0;
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (first == "--version") {
    print("sandbox-node " SANDBOX_VERSION "\n");
    return 0;
  }
  if (first == "--list-fault-points") {
    for (const char* name : node::kFaultPoints) {
      print(base::cat(name, "\n"));
    }
    return 0;
  }
  if (first == "doctor") {
    return doctor();
  }
  auto options = parse_flags(arguments);
  if (!options) {
    complain(base::cat("sandbox-node: ", options.error().message, "\n", kUsage));
    return kUsageExit;
  }
  return serve(std::move(*options));
}
