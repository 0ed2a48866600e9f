#include "cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>

namespace cli {

namespace {

constexpr int kLongMilliseconds = 60'000;  // then the same wait again

}  // namespace

Result<Interrupt> Interrupt::open() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGHUP);
  ::sigaddset(&signals, SIGQUIT);
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return base::fail_errno(errno, "block signals");
  }
  ::signal(SIGPIPE, SIG_IGN);
  Interrupt interrupt;
  interrupt.fd_ = base::Fd(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!interrupt.fd_) {
    return base::fail_errno(errno, "signalfd");
  }
  return interrupt;
}

int Interrupt::signal() {
  if (signal_ == 0 && fd_) {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      signal_ = static_cast<int>(info.ssi_signo);
    }
  }
  return signal_;
}

Result<void> Interrupt::check() {
  if (signal() != 0) {
    return base::fail(base::ErrorCode::cancelled, "interrupted");
  }
  return {};
}

Result<void> Interrupt::wait_for(int fd, short events) {
  while (true) {
    ASSIGN_OR_RETURN(const bool ready, wait_for(fd, events, kLongMilliseconds));
    if (ready) {
      return {};
    }
  }
}

Result<bool> Interrupt::wait_for(int fd, short events, int milliseconds) {
  RETURN_IF_ERROR(check());
  pollfd waits[2] = {{fd, events, 0}, {fd_.get(), POLLIN, 0}};
  const int ready = ::poll(waits, 2, std::max(milliseconds, 0));
  if (ready < 0 && errno != EINTR) {
    return base::fail_errno(errno, "poll");
  }
  RETURN_IF_ERROR(check());
  return ready > 0 && waits[0].revents != 0;
}

Result<void> Interrupt::sleep_ms(int milliseconds) {
  RETURN_IF_ERROR(check());
  pollfd wait{fd_.get(), POLLIN, 0};
  ::poll(&wait, 1, milliseconds);
  return check();
}

}  // namespace cli
