// Standard output and error of the CLI: results go to one, progress and notes to the other. Owned
// by main; one thread. A terminal on standard error gets a progress line for what takes longer
// than a second; nothing else ever does. Writing stops when a signal arrives.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "cli/interrupt.h"

namespace cli {

using base::Result;

class Console {
 public:
  Console(int out, int error, Interrupt& interrupt);

  // The bytes as they are, for the output of commands and files.
  Result<void> write_out(std::string_view bytes) { return write(out_, bytes); }
  Result<void> write_error(std::string_view bytes) { return write(error_, bytes); }
  // As much as there is room for now, without waiting.
  Result<size_t> write_some(bool to_error, std::string_view bytes);
  [[nodiscard]] int fd(bool error) const { return error ? error_ : out_; }
  // "sandbox: TEXT" on standard error, with control characters made inert.
  void note(std::string_view text);
  [[nodiscard]] bool error_is_terminal() const { return error_is_terminal_; }
  // Replaces the current line of a terminal.
  void show_line(std::string_view text);
  void clear_line();

 private:
  Result<void> write(int fd, std::string_view bytes);
  Result<size_t> write_piece(int fd, std::string_view bytes);

  int out_;
  int error_;
  bool error_is_terminal_;
  bool line_shown_ = false;
  Interrupt& interrupt_;
};

// One slow thing: shows nothing in its first second, then at most ten lines a second; takes its
// line away when it goes.
class Progress {
 public:
  Progress(Console& console, const base::Clock& clock)
      : console_(console), clock_(clock), started_(clock.steady()) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { console_.clear_line(); }

  void show(std::string_view text);
  // Whether show() would be seen at all.
  [[nodiscard]] bool visible() const { return console_.error_is_terminal(); }
  [[nodiscard]] int64_t elapsed_seconds() const;

 private:
  Console& console_;
  const base::Clock& clock_;
  base::SteadyTime started_;
  base::SteadyTime shown_{};
};

// "12.0 of 48.0 MiB, 25%"; without a total "12.0 MiB".
std::string describe_bytes(int64_t done, int64_t total);

}  // namespace cli
