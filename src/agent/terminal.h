// Pseudo-terminals of the sandbox, and what a login shell of its user is. Functions; the caller
// owns the descriptors.
#pragma once

#include <cstdint>
#include <string>

#include "agent/accounts.h"
#include "base/fd.h"

namespace agent {

struct WindowSize {
  uint16_t columns = 80;
  uint16_t rows = 24;
};
// No screen is larger, and programs allocate by it.
inline constexpr int64_t kWindowSideMax = 10'000;

struct Terminal {
  base::Fd master;  // non-blocking
  base::Fd slave;   // the command's standard input, output and error
};

// A new terminal of that size that belongs to `owner`.
Result<Terminal> open_terminal(WindowSize size, const Identity& owner);
Result<void> set_window_size(int master, WindowSize size);

// The path of the program: the user's own shell where there is one that is a shell, else bash, else
// sh.
std::string login_shell(std::string_view own_shell);

}  // namespace agent
