// sandbox-agent: PID 1 of a sandbox. See api/agent-protocol.md for how it is started.
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "agent/fault_points.h"
#include "agent/open_path.h"
#include "agent/own_programs.h"
#include "agent/server.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/sys.h"
#include "main/agent_tcp.h"
#include "net/task_group.h"

namespace __gnu_cxx {
// The C++ library's own names the exception, for which it brings a demangler of 45 KB.
void __verbose_terminate_handler() { std::abort(); }
}  // namespace __gnu_cxx

namespace {

using base::Fd;
using base::Result;

// api/agent-protocol.md, "How the agent is started".
constexpr int kListenerFd = 3;
constexpr int kConfigFd = 4;
constexpr int kCgroupFd = 5;
constexpr int kOomCounterFd = 6;
constexpr int kSpoolFd = 7;
constexpr int kCoveredFd = 8;
constexpr size_t kConfigBytesMax = size_t{16} * 1024 * 1024;
constexpr int kBacklog = 256;

struct Flags {
  std::string listen;
  std::string config;
  std::string cgroup;  // tests only, as fd 5 otherwise
};

// A descriptor the node handed over, or an invalid one.
Fd take_descriptor(int number) {
  if (::fcntl(number, F_GETFD) < 0) {
    return {};
  }
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  return Fd(number);
}

Result<Flags> parse_flags(int count, char** values) {
  Flags flags;
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = values[i];
    std::string* target = name == "--listen"   ? &flags.listen
                          : name == "--config" ? &flags.config
                          : name == "--cgroup" ? &flags.cgroup
                                               : nullptr;
    if (target == nullptr || i + 1 == count) {
      return base::fail(base::ErrorCode::invalid_field,
                        "usage: sandbox-agent [--config FILE [--listen PATH] [--cgroup FOLDER]]");
    }
    *target = values[i + 1];
  }
  return flags;
}

// What every command inherits is put right once: no ignored or blocked signals but the two that
// spawn() takes back, no capabilities that survive a change of user, no descriptors but ours.
void prepare_process() {
  for (int number = 1; number < NSIG; ++number) {
    ::signal(number, SIG_DFL);
  }
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t nothing;
  sigemptyset(&nothing);
  ::sigprocmask(SIG_SETMASK, &nothing, nullptr);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  ::umask(0);
}

Result<base::Secret> read_config(const Flags& flags) {
  const Fd config = flags.config.empty() ? take_descriptor(kConfigFd) : Fd();
  auto text = flags.config.empty() ? base::sys::read_all(config.get(), kConfigBytesMax)
                                   : base::sys::read_file(flags.config, kConfigBytesMax);
  RETURN_IF_ERROR(text);
  return base::Secret(std::move(*text));
}

Result<agent::AgentOptions> read_options(const Flags& flags, const base::Secret& config) {
  agent::AgentOptions options;
  ASSIGN_OR_RETURN(options.config, agent::parse_config(config.reveal()));
  if (flags.listen.empty()) {
    options.cgroup = take_descriptor(kCgroupFd);
    options.oom_counter = take_descriptor(kOomCounterFd);
    options.spool_folder = take_descriptor(kSpoolFd);
    const int covered_end = kCoveredFd + static_cast<int>(options.config.mounts.size());
    for (int number = kCoveredFd; number < covered_end; ++number) {
      options.covered.push_back(take_descriptor(number));
    }
    ::syscall(SYS_close_range, covered_end, ~0U, 0);
  } else if (!flags.cgroup.empty()) {
    ASSIGN_OR_RETURN(options.cgroup, base::sys::open(flags.cgroup, O_RDONLY | O_DIRECTORY));
  }
  return options;
}

Result<void> run(const Flags& flags) {
  prepare_process();
  Fd listener;
  if (!flags.config.empty()) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  if (flags.listen.empty()) {
    listener = take_descriptor(kListenerFd);
  } else {
    ASSIGN_OR_RETURN(listener, base::sys::listen_unix(flags.listen, 0600, kBacklog));
    RETURN_IF_ERROR(base::sys::set_nonblocking(listener.get()));
  }
  const bool was_handed_one = listener.valid();
  ASSIGN_OR_RETURN(const base::Secret config, read_config(flags));
  ASSIGN_OR_RETURN(auto options, read_options(flags, config));
  // By descriptor: no path leads a command to it.
  options.program = Fd(::open("/proc/self/exe", O_PATH | O_CLOEXEC));
  const auto fault = options.config.environment.find(base::kFaultVariable);
  if (fault != options.config.environment.end()) {
    base::arm_fault_point(fault->second.c_str());
  }
  if (flags.listen.empty()) {
    // An image need not have its working directory: it is made, as by other runtimes. Where it
    // cannot be, the commands say so.
    [[maybe_unused]] const auto made = agent::open_or_make_folder(AT_FDCWD, options.config.workdir);
  }
  net::EventLoop loop;
  agent::Agent agent(loop, std::move(options));
  agent::Server server(agent, std::move(listener));
  ASSIGN_OR_RETURN(const auto tcp, listen_on_tcp(loop, server, config));
  if (!was_handed_one && !tcp) {
    return base::fail(base::ErrorCode::invalid_field, "no listening socket was handed over");
  }
  net::TaskGroup group(loop);
  if (tcp) {
    group.spawn(tcp->serve());
  }
  group.spawn(server.serve());
  loop.run();
  return {};
}

}  // namespace

int main(int count, char** values) {
  if (count == 2 && values[1] == std::string_view("--list-fault-points")) {
    std::string names;
    for (const char* name : agent::kFaultPoints) {
      names += base::cat(name, "\n");
    }
    return ::write(STDOUT_FILENO, names.data(), names.size()) < 0 ? 1 : 0;
  }
  if (const auto status = agent::run_helper({values + std::min(count, 1), values + count})) {
    return *status;
  }
  const auto flags = parse_flags(count, values);
  const auto result = flags ? run(*flags) : Result<void>(std::unexpected(flags.error()));
  if (!result) {
    base::Log(STDERR_FILENO).error("the agent cannot start", {{"error", result.error().message}});
    return 2;
  }
  return 0;
}
