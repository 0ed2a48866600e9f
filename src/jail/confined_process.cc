#include "jail/confined_process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/sys.h"

namespace jail {
namespace {

using base::cat;
using base::Fd;
using base::Result;

constexpr int kControlDescriptor = 3;
// What a machine behind a proxy needs; nothing else of the node's environment is passed on.
constexpr std::array kKeptVariables = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
                                       "http_proxy", "https_proxy", "no_proxy"};

struct Start {
  int program;
  const char* name;
  int control;
  int gate;  // readable once the ids are mapped
  char* const* environment;
};

// In the child, which is a copy of a single-threaded process: system calls only.
[[noreturn]] void run_child(const Start& start) noexcept {
  char byte = 0;
  if (::read(start.gate, &byte, 1) != 1) {
    ::_exit(1);  // the node gave up or is gone
  }
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  if (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, 0, 0, 0) != 0 ||
      ::syscall(SYS_setresuid, 0, 0, 0) != 0 || ::chdir("/") != 0 || ::setsid() < 0 ||
      nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(nothing, STDOUT_FILENO) < 0) {
    ::_exit(1);
  }
  // Whatever else the node was started with stays with it.
  if (::syscall(SYS_close_range, kControlDescriptor + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    ::_exit(1);
  }
  // A descriptor that already is number 3 would keep its close-on-exec mark.
  if (start.control == kControlDescriptor ? ::fcntl(kControlDescriptor, F_SETFD, 0) < 0
                                          : ::dup2(start.control, kControlDescriptor) < 0) {
    ::_exit(1);
  }
  const char* const arguments[] = {start.name, "--serve", nullptr};
  ::syscall(SYS_execveat, start.program, "", arguments, start.environment, AT_EMPTY_PATH);
  ::_exit(127);
}

std::vector<std::string> kept_environment() {
  std::vector<std::string> out = {"PATH=/usr/bin:/bin:/usr/sbin:/sbin"};
  for (const char* name : kKeptVariables) {
    if (const char* value = ::getenv(name); value != nullptr) {
      out.push_back(cat(name, "=", value));
    }
  }
  return out;
}

}  // namespace

ConfinedProcess::~ConfinedProcess() {
  if (process_) {
    ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
    siginfo_t info{};
    while (::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED) != 0 &&
           errno == EINTR) {
    }
  }
}

Result<ConfinedProcess> ConfinedProcess::start(const ConfinedOptions& options) {
  // Everything the child needs is ready before it exists. The program's descriptor is opened to a
  // number above 3, which the child overwrites.
  ASSIGN_OR_RETURN(Fd low, base::sys::open(options.program, O_PATH));
  const Fd executable(::fcntl(low.get(), F_DUPFD_CLOEXEC, kControlDescriptor + 1));
  low.reset();
  ASSIGN_OR_RETURN(auto sockets, base::sys::make_socket_pair(SOCK_STREAM));
  ASSIGN_OR_RETURN(auto gate, base::sys::make_pipe());
  auto variables = kept_environment();
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (auto& variable : variables) {
    environment.push_back(variable.data());
  }
  environment.push_back(nullptr);

  const std::string name = options.program.substr(options.program.rfind('/') + 1);

  int pidfd = -1;
  clone_args args{};
  args.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
               CLONE_PIDFD | (options.own_network ? uint64_t{CLONE_NEWNET} : 0);
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  if (pid < 0) {
    return base::fail_errno(errno, "clone3 of ", options.program);
  }
  if (pid == 0) {
    ::close(gate.second.get());
    run_child({executable.get(), name.c_str(), sockets.second.get(), gate.first.get(),
               environment.data()});
  }
  ConfinedProcess process;
  process.process_ = Fd(pidfd);
  process.control = std::move(sockets.first);
  const std::string map = cat("0 ", options.id_base, " ", options.ids, "\n");
  RETURN_IF_ERROR(base::sys::write_file(cat("/proc/", pid, "/uid_map"), map));
  RETURN_IF_ERROR(base::sys::write_file(cat("/proc/", pid, "/gid_map"), map));
  ASSIGN_OR_RETURN(process.user_namespace_,
                   base::sys::open(cat("/proc/", pid, "/ns/user"), O_RDONLY));
  RETURN_IF_ERROR(base::sys::write_all(gate.second.get(), "g"));
  return process;
}

Result<Fd> ConfinedProcess::map_folder(const std::string& folder, bool writable) const {
  Fd mount(::open_tree(AT_FDCWD, folder.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!mount) {
    return base::fail_errno(errno, "open_tree ", folder);
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                        (writable ? 0ULL : static_cast<unsigned long long>(MOUNT_ATTR_RDONLY));
  attributes.userns_fd = static_cast<uint64_t>(user_namespace_.get());
  if (::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0) {
    return base::fail_errno(errno, "id-mapped mount of ", folder);
  }
  return mount;
}

}  // namespace jail
