#include "server/client_watch.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace server {
namespace {

// While bytes of a next request wait to be read, readiness says nothing new: then the hang-up is
// looked for at this pace.
constexpr base::Milliseconds kLookAgain{500};

// What Linux lets a sender's socket hold by default (the maximum of tcp_wmem); the kernel doubles
// it for its own book-keeping.
constexpr int kUnsentBytesMax = 4 * 1024 * 1024;

// POLL bits that hold now.
int poll_now(const net::Stream& client) {
  pollfd state{.fd = client.fd(), .events = POLLIN | POLLRDHUP, .revents = 0};
  ::poll(&state, 1, 0);
  return state.revents;
}

constexpr int kHangUp = POLLRDHUP | POLLHUP | POLLERR;

}  // namespace

bool has_hung_up(const net::Stream& client) { return (poll_now(client) & kHangUp) != 0; }

ClientWatch::ClientWatch(net::Stream& client, std::function<void()> on_gone)
    : client_(client), on_gone_(std::move(on_gone)) {
  wait_readable();
}

ClientWatch::~ClientWatch() {
  if (watching_) {
    client_.loop().unwatch(client_.fd(), net::EventLoop::Direction::read);
  }
  if (timer_ != 0) {
    client_.loop().remove_timer(timer_);
  }
}

void ClientWatch::wait_readable() {
  watching_ = true;
  client_.loop().watch(client_.fd(), net::EventLoop::Direction::read, [this] {
    watching_ = false;
    look();
  });
}

void ClientWatch::look() {
  const int state = poll_now(client_);
  if ((state & kHangUp) != 0) {
    gone_ = true;
    on_gone_();
    return;
  }
  if ((state & POLLIN) == 0) {
    wait_readable();
    return;
  }
  timer_ = client_.loop().add_timer(std::chrono::steady_clock::now() + kLookAgain, [this] {
    timer_ = 0;
    look();
  });
}

HangUpWatch::HangUpWatch(net::Stream& client, std::function<void()> on_gone)
    : client_(client), on_gone_(std::move(on_gone)) {
  wait();
}

HangUpWatch::~HangUpWatch() {
  if (timer_ != 0) {
    client_.loop().remove_timer(timer_);
  }
}

void HangUpWatch::wait() {
  timer_ = client_.loop().add_timer(std::chrono::steady_clock::now() + kLookAgain, [this] {
    timer_ = 0;
    look();
  });
}

// Where nothing was taken since the last look.
void HangUpWatch::make_room() {
  const int before = waiting_bytes_;
  ::ioctl(client_.fd(), FIONREAD, &waiting_bytes_);
  if (made_room_ || waiting_bytes_ == 0 || waiting_bytes_ != before) {
    return;
  }
  made_room_ = true;
  // The second form, of a privileged process, goes beyond the host's maximum.
  ::setsockopt(client_.fd(), SOL_SOCKET, SO_RCVBUF, &kUnsentBytesMax, sizeof kUnsentBytesMax);
  ::setsockopt(client_.fd(), SOL_SOCKET, SO_RCVBUFFORCE, &kUnsentBytesMax, sizeof kUnsentBytesMax);
}

void HangUpWatch::look() {
  if (!has_hung_up(client_)) {
    make_room();
    wait();
    return;
  }
  gone_ = true;
  on_gone_();
}

}  // namespace server
