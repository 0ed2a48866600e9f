#include "agent/reaper.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace agent {

Reaper::Reaper(net::EventLoop& loop) : loop_(loop) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
    std::abort();
  }
  signals_ = base::Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_) {
    std::abort();
  }
  watch();
}

Reaper::~Reaper() { loop_.forget(signals_.get()); }

void Reaper::expect(pid_t pid, std::function<void(int)> callback) {
  expected_[pid] = std::move(callback);
}

void Reaper::watch() {
  loop_.watch(signals_.get(), net::EventLoop::Direction::read, [this] {
    std::array<signalfd_siginfo, 8> signals;
    [[maybe_unused]] const ssize_t size = ::read(signals_.get(), signals.data(), sizeof signals);
    watch();
    reap();
  });
}

void Reaper::reap() {
  bool orphans = false;
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      break;
    }
    const auto found = expected_.find(pid);
    if (found == expected_.end()) {
      orphans = true;
      continue;
    }
    const auto callback = std::move(found->second);
    expected_.erase(found);
    callback(status);
  }
  if (orphans && on_orphans_) {
    on_orphans_();
  }
}

}  // namespace agent
