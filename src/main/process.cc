#include "main/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace process {

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

void hide_memory() {
  ::prctl(PR_SET_DUMPABLE, 0);
  constexpr rlimit kNone{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &kNone);
}

base::Result<base::Fd> catch_signals() {
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

void take_signal(int signals) {
  signalfd_siginfo taken{};
  [[maybe_unused]] const ssize_t size = ::read(signals, &taken, sizeof taken);
}

}  // namespace process
