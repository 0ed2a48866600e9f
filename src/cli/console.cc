#include "cli/console.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cli/format.h"

namespace cli {

namespace {

constexpr std::chrono::seconds kQuietTime{1};
constexpr std::chrono::milliseconds kLineInterval{100};
constexpr size_t kDefaultColumns = 80;
// A pipe that poll calls writable takes this much without blocking (PIPE_BUF).
constexpr size_t kPipeWriteBytes = 4096;
constexpr size_t kFileWriteBytes = 1UL << 20U;

}  // namespace

Console::Console(int out, int error, Interrupt& interrupt)
    : out_(out), error_(error), error_is_terminal_(::isatty(error) == 1), interrupt_(interrupt) {}

Result<void> Console::write(int fd, std::string_view bytes) {
  clear_line();
  struct stat status{};
  const bool file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const size_t piece_max = file ? kFileWriteBytes : kPipeWriteBytes;
  while (!bytes.empty()) {
    if (!file) {
      RETURN_IF_ERROR(interrupt_.wait_for(fd, POLLOUT));
    }
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), piece_max));
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      return base::fail_errno(errno, "write to standard ", fd == out_ ? "output" : "error");
    }
    bytes.remove_prefix(written > 0 ? static_cast<size_t>(written) : 0);
  }
  return {};
}

void Console::note(std::string_view text) {
  clear_line();
  const std::string line = base::cat("sandbox: ", escape_for_terminal(text), "\n");
  // Nobody is left to tell when standard error is gone.
  (void)!::write(error_, line.data(), line.size());
}

void Console::show_line(std::string_view text) {
  if (!error_is_terminal_) {
    return;
  }
  winsize size{};
  const bool known = ::ioctl(error_, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const size_t columns = known ? size.ws_col - 1U : kDefaultColumns - 1U;
  const std::string line = base::cat("\r\x1b[K", clip_columns(escape_for_terminal(text), columns));
  (void)!::write(error_, line.data(), line.size());
  line_shown_ = true;
}

void Console::clear_line() {
  if (line_shown_) {
    constexpr std::string_view kClear = "\r\x1b[K";
    (void)!::write(error_, kClear.data(), kClear.size());
    line_shown_ = false;
  }
}

void Progress::show(std::string_view text) {
  const auto now = clock_.steady();
  if (!visible() || now - started_ < kQuietTime || now - shown_ < kLineInterval) {
    return;
  }
  shown_ = now;
  console_.show_line(text);
}

int64_t Progress::elapsed_seconds() const {
  return std::chrono::duration_cast<std::chrono::seconds>(clock_.steady() - started_).count();
}

std::string describe_bytes(int64_t done, int64_t total) {
  if (total <= 0) {
    return format_bytes(done);
  }
  return base::cat(format_bytes(done), " of ", format_bytes(total), ", ", done * 100 / total, "%");
}

}  // namespace cli
