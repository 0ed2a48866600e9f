#include "cli/raw_terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace cli {

namespace {

sigset_t watched_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGWINCH);
  ::sigaddset(&signals, SIGCONT);
  return signals;
}

}  // namespace

TerminalSize terminal_size() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
      return {.columns = size.ws_col, .rows = size.ws_row};
    }
  }
  return {};
}

Result<std::unique_ptr<RawTerminal>> RawTerminal::open() {
  auto terminal = std::unique_ptr<RawTerminal>(new RawTerminal());
  if (::tcgetattr(STDIN_FILENO, &terminal->before_) != 0) {
    return base::fail_errno(errno, "read the terminal's mode");
  }
  const sigset_t signals = watched_signals();
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return base::fail_errno(errno, "block signals");
  }
  terminal->signals_ = base::Fd(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!terminal->signals_) {
    return base::fail_errno(errno, "signalfd");
  }
  terminal->raw_ = terminal->before_;
  ::cfmakeraw(&terminal->raw_);
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &terminal->raw_) != 0) {
    return base::fail_errno(errno, "set the terminal to raw mode");
  }
  return terminal;
}

RawTerminal::~RawTerminal() {
  // TCSANOW: a terminal whose output stands still (Ctrl-S) must not hold us up.
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  const sigset_t signals = watched_signals();
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

void RawTerminal::refresh() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCONT) {
      ::tcsetattr(STDIN_FILENO, TCSANOW, &raw_);
    }
  }
}

}  // namespace cli
