#include "jail/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "jail/mounts.h"

namespace jail {
namespace {

using base::ErrorCode;
using base::Fd;
using base::Result;

constexpr size_t kAgentBytesMax = size_t{64} << 20;  // also of a sanitized build
// What programs that keep many files open are used to from other container runtimes.
constexpr uint64_t kOpenFilesWanted = 65'536;
constexpr uint32_t kIdsPerSandbox = 65'536;

// Puts the thread into another network namespace until the end of the scope: a child cloned there
// starts in it, which is far cheaper than making one.
class NetworkVisit {
 public:
  NetworkVisit(int target, int home) : home_(home), ok_(::setns(target, CLONE_NEWNET) == 0) {}
  NetworkVisit(const NetworkVisit&) = delete;
  ~NetworkVisit() {
    if (ok_ && ::setns(home_, CLONE_NEWNET) != 0) {
      ::abort();  // going on in a sandbox's network would be worse than anything
    }
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  int home_;
  bool ok_;
};

pid_t clone_shell(int v2_folder, int& pidfd) {
  clone_args arguments{};
  arguments.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                    CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
  arguments.exit_signal = SIGCHLD;
  arguments.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  if (v2_folder >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(v2_folder);
  }
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

Result<void> write_maps(pid_t pid, uid_t base_id) {
  const std::string map = base::cat("0 ", base_id, " ", kIdsPerSandbox, "\n");
  for (const char* name : {"uid_map", "gid_map"}) {
    RETURN_IF_ERROR(base::sys::write_file(base::cat("/proc/", pid, "/", name), map));
  }
  return {};
}

}  // namespace

Result<Launcher> make_launcher(const std::string& agent_path) {
  Launcher launcher;
  ASSIGN_OR_RETURN(launcher.filter, make_seccomp_filter(Profile::sandbox));
  ASSIGN_OR_RETURN(launcher.builder_filter, make_seccomp_filter(Profile::builder));
  ASSIGN_OR_RETURN(const std::string agent, base::sys::read_file(agent_path, kAgentBytesMax));
  // A copy that nothing can write: /proc/PID/exe inside leads here, not to the host's file.
  ASSIGN_OR_RETURN(launcher.agent, base::sys::make_sealed_memory("sandbox-agent", agent));
  ASSIGN_OR_RETURN(launcher.network_namespace, base::sys::open("/proc/self/ns/net", O_RDONLY));
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return base::fail_errno(errno, "read the limit of open files");
  }
  launcher.open_files = std::min<uint64_t>(kOpenFilesWanted, files.rlim_max);
  ASSIGN_OR_RETURN(const std::string score,
                   base::sys::read_file("/proc/self/oom_score_adj", sizeof "-1000\n"));
  launcher.reset_oom_score = score != "0\n";
  return launcher;
}

Result<Shell> Shell::make(const Launcher& launcher, const ShellOptions& options) {
  if (options.cgroup_tasks.size() > kCgroupsMax) {
    return base::fail(ErrorCode::internal, "too many cgroup hierarchies");
  }
  ASSIGN_OR_RETURN(auto pair, base::sys::make_socket_pair(SOCK_SEQPACKET));
  ASSIGN_OR_RETURN(const Fd dev, make_dev(options.id_base));
  ShellPlan plan;
  plan.control = pair.second.get();
  plan.agent = launcher.agent.get();
  plan.v2_folder = options.v2_folder;
  plan.reset_oom_score = launcher.reset_oom_score;
  plan.open_files = launcher.open_files;
  plan.profile = options.profile;
  const SeccompFilter& filter =
      options.profile == Profile::builder ? launcher.builder_filter : launcher.filter;
  plan.filter_policy = filter.policy;
  plan.filter_last = filter.last;
  std::vector<const char*> arguments;
  arguments.reserve(launcher.arguments.size() + 1);
  for (const std::string& argument : launcher.arguments) {
    arguments.push_back(argument.c_str());
  }
  arguments.push_back(nullptr);
  plan.arguments = arguments.data();
  for (const Fd& tasks : options.cgroup_tasks) {
    plan.cgroup_tasks[plan.cgroup_tasks_count++] = tasks.get();
  }

  Shell shell;
  Fd sysfs;
  {
    const NetworkVisit visit(options.network_namespace, launcher.network_namespace.get());
    if (!visit.ok()) {
      return base::fail_errno(errno, "enter the network namespace");
    }
    ASSIGN_OR_RETURN(sysfs, make_sysfs());
    int pidfd = -1;
    shell.pid_ = clone_shell(options.v2_folder, pidfd);
    if (shell.pid_ == 0) {
      run_shell(plan);
    }
    if (shell.pid_ < 0) {
      return base::fail_errno(errno, "clone3");
    }
    shell.process_ = Fd(pidfd);
  }
  pair.second.reset();
  shell.control_ = std::move(pair.first);
  RETURN_IF_ERROR(write_maps(shell.pid_, options.id_base));
  ASSIGN_OR_RETURN(shell.user_namespace_,
                   base::sys::open(base::cat("/proc/", shell.pid_, "/ns/user"), O_RDONLY));
  const FirstOrder order;
  const std::array<int, kFirstOrderFds> fds{sysfs.get(), dev.get()};
  RETURN_IF_ERROR(base::sys::send_with_fds(
      shell.control_.get(), {reinterpret_cast<const char*>(&order), sizeof order}, fds));
  RETURN_IF_ERROR(base::sys::set_nonblocking(shell.control_.get()));
  return shell;
}

Shell::~Shell() {
  if (process_) {
    ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
    siginfo_t info{};
    ::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED);
  }
}

Result<void> Shell::start(const StartOptions& options) {
  SecondOrder order;
  if (options.hostname.size() > kHostnameMax) {
    return base::fail(ErrorCode::internal, "host name too long");
  }
  std::ranges::copy(options.hostname, order.hostname.begin());
  order.no_new_privileges = options.no_new_privileges;
  order.has_oom_counter = options.oom_counter >= 0;
  order.has_spool = options.spool >= 0;
  order.has_state = options.state >= 0;
  std::vector<int> fds{options.root, options.listen, options.config};
  for (const int fd : {options.oom_counter, options.spool, options.state}) {
    if (fd >= 0) {
      fds.push_back(fd);
    }
  }
  if (options.mounts.size() > kMountsMax) {
    return base::fail(ErrorCode::internal, "too many mounts");
  }
  for (const StartOptions::Mount& mount : options.mounts) {
    if (mount.target.size() > kMountTargetMax) {
      return base::fail(ErrorCode::internal, "the place of a mount is too long");
    }
    std::ranges::copy(mount.target, order.mount_targets[order.mounts_count++].begin());
    fds.push_back(mount.fd);
  }
  return base::sys::send_with_fds(control_.get(),
                                  {reinterpret_cast<const char*>(&order), sizeof order}, fds);
}

std::optional<Shell::Outcome> Shell::outcome() const {
  Failure failure;
  const ssize_t count = ::recv(control_.get(), &failure, sizeof failure, MSG_DONTWAIT);
  if (count == static_cast<ssize_t>(sizeof failure)) {
    return Outcome{.executed = false, .failure = failure};
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return std::nullopt;
  }
  // The end: the agent's execve closed the other side, or the process died before it.
  pollfd died{.fd = process_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&died, 1, 0) == 1) {
    return Outcome{.executed = false, .failure = {Step::execute_agent, ECHILD}};
  }
  return Outcome{.executed = true, .failure = {}};
}

}  // namespace jail
