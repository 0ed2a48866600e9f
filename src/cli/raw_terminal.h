// The user's terminal in raw mode: every key is read as it is typed, Ctrl-C too. Owned by whoever
// passes the keys on; the destructor puts the terminal back as it was, so that it is sane on every
// way out that unwinds (signals arrive by Interrupt for that reason). One at a time; one thread.
#pragma once

#include <termios.h>

#include <memory>

#include "base/error.h"
#include "base/fd.h"

namespace cli {

using base::Result;

struct TerminalSize {
  int columns = 80;
  int rows = 24;
  bool operator==(const TerminalSize&) const = default;
};
// Of the terminal on standard input or output; 80 x 24 when neither has one.
TerminalSize terminal_size();

class RawTerminal {
 public:
  // Of standard input, which must be a terminal.
  static Result<std::unique_ptr<RawTerminal>> open();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  // Readable after a change of size and after a stop and continue; then call refresh().
  [[nodiscard]] int fd() const { return signals_.get(); }
  // Takes note of both: raw mode is set again, in case a shell changed it meanwhile.
  void refresh();

 private:
  RawTerminal() = default;

  base::Fd signals_;
  termios before_{};
  termios raw_{};
};

}  // namespace cli
