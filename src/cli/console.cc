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

bool is_file(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

Console::Console(int out, int error, Interrupt& interrupt)
    : out_(out), error_(error), error_is_terminal_(::isatty(error) == 1), interrupt_(interrupt) {}

Result<void> Console::write(int fd, std::string_view bytes) {
  clear_line();
  const bool file = is_file(fd);
  while (!bytes.empty()) {
    if (!file) {
      RETURN_IF_ERROR(interrupt_.wait_for(fd, POLLOUT));
    }
    ASSIGN_OR_RETURN(const size_t written,
                     write_piece(fd, bytes.substr(0, file ? kFileWriteBytes : kPipeWriteBytes)));
    bytes.remove_prefix(written);
  }
  return {};
}

Result<size_t> Console::write_some(bool to_error, std::string_view bytes) {
  clear_line();
  const int to = fd(to_error);
  const bool file = is_file(to);
  size_t total = 0;
  while (total < bytes.size()) {
    pollfd room{to, POLLOUT, 0};
    if (!file && ::poll(&room, 1, 0) <= 0) {
      break;
    }
    ASSIGN_OR_RETURN(
        const size_t written,
        write_piece(to, bytes.substr(total, file ? kFileWriteBytes : kPipeWriteBytes)));
    if (written == 0) {
      break;
    }
    total += written;
  }
  return total;
}

// 0 when there was no room after all.
Result<size_t> Console::write_piece(int fd, std::string_view bytes) {
  const ssize_t written = ::write(fd, bytes.data(), bytes.size());
  if (written < 0 && errno != EINTR && errno != EAGAIN) {
    return base::fail_errno(errno, "write to standard ", fd == out_ ? "output" : "error");
  }
  return written > 0 ? static_cast<size_t>(written) : 0;
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
