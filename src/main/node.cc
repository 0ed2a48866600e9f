// sandbox-node: the privileged process of one machine. Reads its settings, wires the node, runs it.
#include "node/node.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "base/standard_streams.h"
#include "base/sys.h"
#include "base/text.h"
#include "config/command_line.h"
#include "config/node_options.h"
#include "node/doctor.h"
#include "node/fault_points.h"
#include "node/spec_json.h"

namespace {

void print(std::string_view text) {
  [[maybe_unused]] const auto written = base::sys::write_all(STDOUT_FILENO, text);
}

void complain(std::string_view text) {
  [[maybe_unused]] const auto written = base::sys::write_all(STDERR_FILENO, text);
}

// The number of a group that is named so or is a number itself. Read here: the C library's own
// look-up needs plugins, which a static program has none of.
base::Result<uint32_t> find_group(const std::string& name) {
  constexpr size_t kBytesMax = size_t{1024} * 1024;
  if (const auto number = base::parse_number<uint32_t>(name)) {
    return *number;
  }
  ASSIGN_OR_RETURN(const std::string groups, base::sys::read_file("/etc/group", kBytesMax));
  for (const std::string_view line : base::split(groups, '\n')) {
    const auto fields = base::split(line, ':');
    if (fields.size() > 2 && fields[0] == name) {
      if (const auto number = base::parse_number<uint32_t>(fields[2])) {
        return *number;
      }
    }
  }
  return base::fail(base::ErrorCode::not_found, "gateway-group: there is no group \"", name, "\"");
}

base::Result<node::NodeOptions> node_options(const config::Settings& settings) {
  const std::string& state = settings.text("state");
  ASSIGN_OR_RETURN(const uint32_t group, find_group(settings.text("gateway-group")));
  return node::NodeOptions{
      .run_folder = state.empty() ? "/run/sandbox-gateway" : state + "/run",
      .lib_folder = state.empty() ? "/var/lib/sandbox-gateway/lib" : state + "/lib",
      .gateway_gid = group,
      .shells = static_cast<size_t>(settings.number("shells")),
      .agent = settings.text("agent"),
      .image_helper = settings.text("image-helper"),
      .dns_helper = settings.text("dns-helper"),
      .dns_servers = settings.text("dns-servers"),
      .builder_root = settings.text("builder-root"),
      .storage_pool_mb = settings.number("storage-pool-mb"),
      .storage_driver = settings.text("storage-driver"),
      .name_prefix = settings.text("name-prefix"),
      .subnet = settings.text("subnet"),
      .id_base = static_cast<uint32_t>(settings.number("id-base")),
      .allow_local_images = settings.boolean("allow-local-images"),
      .image_free_percent = static_cast<int>(settings.number("image-free-percent"))};
}

int doctor(const std::string& builder_root) {
  bool fine = true;
  for (const node::Check& check : node::run_doctor(builder_root)) {
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

// Environments of sandboxes pass through this process: no core file has them. The hard limit stays,
// since sandboxes begin with it.
void forbid_core_files() {
  rlimit core{};
  if (::getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &core);
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

int serve(const node::NodeOptions& options) {
  base::Log log(STDERR_FILENO);
  base::RealClock clock;
  ::umask(0022);
  forbid_core_files();
  raise_open_files();
  const base::Fd signals = open_signals();
  net::EventLoop loop;
  auto node = node::Node::open(loop, options, clock, log);
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
  base::hold_standard_streams();
  const std::vector<std::string> arguments(values + 1, values + count);
  if (arguments == std::vector<std::string>{"--list-fault-points"}) {
    for (const char* name : node::kFaultPoints) {
      print(base::cat(name, "\n"));
    }
    return 0;
  }
  const auto variable = [](const std::string& name) { return ::getenv(name.c_str()); };
  const auto asked =
      config::read_command_line(config::node_program(), arguments, variable, nullptr);
  if (asked.exit) {
    return *asked.exit;
  }
  if (asked.command == "doctor") {
    return doctor(asked.settings.text("builder-root"));
  }
  auto options = node_options(asked.settings);
  if (!options) {
    complain(base::cat("sandbox-node: ", options.error().message, "\n"));
    return 1;
  }
  return serve(*options);
}
