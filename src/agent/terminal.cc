#include "agent/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>

namespace agent {
namespace {

// Of the terminal's group, which may write to it (`wall`), in place of the device's default 0666.
constexpr mode_t kTerminalMode = 0620;

bool is_program(const std::string& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         (found.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0;
}

// Programs that stand in for a shell to refuse logins.
bool refuses_logins(std::string_view path) {
  return path.ends_with("/nologin") || path.ends_with("/false");
}

}  // namespace

Result<Terminal> open_terminal(WindowSize size, const Identity& owner) {
  Terminal terminal;
  terminal.master = base::Fd(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!terminal.master) {
    return base::fail_errno(errno, "open a terminal");
  }
  const int unlocked = 0;
  if (::ioctl(terminal.master.get(), TIOCSPTLCK, &unlocked) != 0) {
    return base::fail_errno(errno, "unlock the terminal");
  }
  terminal.slave =
      base::Fd(::ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.slave) {
    return base::fail_errno(errno, "open the terminal's other end");
  }
  // Programs that open it by its name act as this user.
  if (::fchown(terminal.slave.get(), owner.uid, owner.gid) != 0 ||
      ::fchmod(terminal.slave.get(), kTerminalMode) != 0) {
    return base::fail_errno(errno, "give the terminal to its user");
  }
  termios settings{};
  if (::tcgetattr(terminal.slave.get(), &settings) == 0) {
    settings.c_iflag |= IUTF8;  // erase takes whole characters
    ::tcsetattr(terminal.slave.get(), TCSANOW, &settings);
  }
  RETURN_IF_ERROR(set_window_size(terminal.master.get(), size));
  return terminal;
}

Result<void> set_window_size(int master, WindowSize size) {
  const winsize wanted{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::ioctl(master, TIOCSWINSZ, &wanted) != 0) {
    return base::fail_errno(errno, "resize the terminal");
  }
  return {};
}

std::string login_shell(std::string_view own_shell) {
  if (own_shell.starts_with('/') && !refuses_logins(own_shell) &&
      is_program(std::string(own_shell))) {
    return std::string(own_shell);
  }
  for (const char* path : {"/bin/bash", "/usr/bin/bash"}) {
    if (is_program(path)) {
      return path;
    }
  }
  return "/bin/sh";
}

}  // namespace agent
