#include "agent/output_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"

namespace agent {
namespace {

// So many full pieces one after the other mean a flood. Large pipes are not given at once: the
// kernel has a limit of all pipes of one user, past which new ones hold a page.
constexpr int kFloodPieces = 8;

}  // namespace

Result<base::Fd> OutputPipe::open_pipe() {
  ASSIGN_OR_RETURN(auto pipe, base::sys::make_pipe());
  RETURN_IF_ERROR(base::sys::set_nonblocking(pipe.first.get()));
  end_ = std::move(pipe.first);
  pipe_ = true;
  return std::move(pipe.second);
}

void OutputPipe::when_readable(std::function<void()> callback) {
  if (end_) {
    loop_.watch(end_.get(), net::EventLoop::Direction::read, std::move(callback));
  }
}

void OutputPipe::stop_waiting() {
  if (end_) {
    loop_.unwatch(end_.get(), net::EventLoop::Direction::read);
  }
}

void OutputPipe::note_piece(size_t size) {
  full_pieces_ = size == piece_bytes_ ? full_pieces_ + 1 : 0;
  if (pipe_ && full_pieces_ == kFloodPieces && piece_bytes_ < kReadBytesMax &&
      ::fcntl(end_.get(), F_SETPIPE_SZ, static_cast<int>(kReadBytesMax)) > 0) {
    piece_bytes_ = kReadBytesMax;
  }
}

size_t OutputPipe::read(std::span<char> buffer) {
  if (!end_) {
    return 0;
  }
  const ssize_t count = ::read(end_.get(), buffer.data(), buffer.size());
  if (count > 0) {
    note_piece(static_cast<size_t>(count));
    return static_cast<size_t>(count);
  }
  // A terminal that nobody has open any more says EIO.
  if (count == 0 || (errno != EAGAIN && errno != EINTR && errno != EFAULT)) {
    close(nullptr);
  }
  return 0;
}

size_t OutputPipe::waiting() const {
  int bytes = 0;
  if (!end_ || ::ioctl(end_.get(), FIONREAD, &bytes) != 0) {
    return 0;
  }
  return static_cast<size_t>(std::max(bytes, 0));
}

void OutputPipe::close(LeftoverOutput* leftovers) {
  if (!end_) {
    return;
  }
  loop_.forget(end_.get());
  if (leftovers != nullptr && pipe_) {
    leftovers->take(std::move(end_));
  }
  end_.reset();
}

}  // namespace agent
