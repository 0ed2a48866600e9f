#include "cli/forwarded_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace cli {

namespace {

constexpr size_t kReadBytes = 64UL * 1024;

}  // namespace

void ForwardedStream::add_waits(std::vector<pollfd>& waits) const {
  const auto events = [](bool reads, bool writes) {
    return static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
  };
  if (upgrade_) {
    waits.push_back({-1, 0, 0});
    waits.push_back({upgrade_->fd(), upgrade_->wanted(), 0});
    return;
  }
  const short local = events(!local_ended_ && to_remote_.size() < kBufferBytes, !to_local_.empty());
  const short remote =
      events(!remote_ended_ && to_local_.size() < kBufferBytes, !to_remote_.empty());
  // One that is waited for in no direction would still tell of its end, again and again.
  waits.push_back({local == 0 ? -1 : local_.get(), local, 0});
  waits.push_back({remote == 0 ? -1 : remote_->fd(), remote, 0});
}

Result<bool> ForwardedStream::step() {
  if (upgrade_) {
    ASSIGN_OR_RETURN(const bool answered, upgrade_->step());
    if (!answered) {
      return false;
    }
    to_local_ = upgrade_->take_early();
    remote_ = upgrade_->take_connection();
    upgrade_.reset();
  }
  RETURN_IF_ERROR(read_local());
  RETURN_IF_ERROR(write_remote());
  RETURN_IF_ERROR(read_remote());
  RETURN_IF_ERROR(write_local());
  return local_told_ && remote_told_;
}

Result<void> ForwardedStream::read_local() {
  std::string buffer(kReadBytes, '\0');
  while (!local_ended_ && to_remote_.size() < kBufferBytes) {
    const ssize_t got = ::recv(local_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
      return {};
    }
    if (got < 0 && errno != EINTR) {
      return base::fail(base::ErrorCode::connection_closed, "the local connection is gone");
    }
    local_ended_ = got == 0;
    to_remote_.append(buffer, 0, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
  return {};
}

Result<void> ForwardedStream::read_remote() {
  std::string buffer(kReadBytes, '\0');
  has_more_ = false;
  while (!remote_ended_) {
    if (to_local_.size() >= kBufferBytes) {
      has_more_ = true;
      return {};
    }
    const auto got = remote_->receive(buffer);
    if (got && *got == 0) {
      return {};
    }
    remote_ended_ = !got;
    to_local_.append(buffer, 0, got.value_or(0));
  }
  return {};
}

Result<void> ForwardedStream::write_local() {
  while (!to_local_.empty()) {
    const ssize_t sent =
        ::send(local_.get(), to_local_.data(), to_local_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      return {};
    }
    if (sent < 0 && errno != EINTR) {
      return base::fail(base::ErrorCode::connection_closed, "the local connection is gone");
    }
    bytes_ += std::max<ssize_t>(sent, 0);
    to_local_.erase(0, static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  }
  if (remote_ended_ && !local_told_) {
    ::shutdown(local_.get(), SHUT_WR);
    local_told_ = true;
  }
  return {};
}

Result<void> ForwardedStream::write_remote() {
  while (!to_remote_.empty()) {
    ASSIGN_OR_RETURN(const size_t sent, remote_->send(to_remote_));
    if (sent == 0) {
      return {};
    }
    bytes_ += static_cast<int64_t>(sent);
    to_remote_.erase(0, sent);
  }
  if (local_ended_ && !remote_told_) {
    ::shutdown(remote_->fd(), SHUT_WR);
    remote_told_ = true;
  }
  return {};
}

}  // namespace cli
