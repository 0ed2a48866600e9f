#include "agent/command_input.h"

#include <errno.h>
#include <termios.h>
#include <unistd.h>

#include "base/sys.h"

namespace agent {

Result<base::Fd> CommandInput::open_pipe() {
  ASSIGN_OR_RETURN(auto pipe, base::sys::make_pipe());
  RETURN_IF_ERROR(base::sys::set_nonblocking(pipe.second.get()));
  end_ = std::move(pipe.second);
  return std::move(pipe.first);
}

void CommandInput::use_terminal(base::Fd master) {
  end_ = std::move(master);
  terminal_ = true;
}

void CommandInput::add(std::string bytes) {
  if (!is_open()) {
    return;
  }
  const bool idle = queue_.empty();
  if (idle) {
    queue_ = std::move(bytes);
  } else {
    queue_.erase(0, std::exchange(written_, 0));
    queue_ += bytes;
  }
  if (idle) {
    write_some();
  }
}

void CommandInput::finish() {
  if (!is_open()) {
    return;
  }
  if (terminal_) {
    termios settings{};
    const bool known = ::tcgetattr(end_.get(), &settings) == 0;
    constexpr char kEndOfFile = '\x04';
    add(std::string(1, known ? static_cast<char>(settings.c_cc[VEOF]) : kEndOfFile));
    return;
  }
  finishing_ = true;
  if (queue_.empty()) {
    close();
  }
}

void CommandInput::close() {
  if (end_) {
    loop_.forget(end_.get());
    end_.reset();
  }
  queue_ = std::string();
  written_ = 0;
  changed_.notify();
}

void CommandInput::write_some() {
  const bool had_room = has_room();
  while (written_ < queue_.size()) {
    const ssize_t count = ::write(end_.get(), queue_.data() + written_, queue_.size() - written_);
    if (count > 0) {
      written_ += static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno != EAGAIN) {
      close();  // the command closed its end
      return;
    }
    loop_.watch(end_.get(), net::EventLoop::Direction::write, [this] { write_some(); });
    if (!had_room && has_room()) {
      changed_.notify();
    }
    return;
  }
  queue_ = std::string();
  written_ = 0;
  if (finishing_) {
    close();
    return;
  }
  changed_.notify();
}

}  // namespace agent
