#include "server/client_watch.h"

#include <poll.h>

namespace server {
namespace {

// While bytes of a next request wait to be read, readiness says nothing new: then the hang-up is
// looked for at this pace.
constexpr base::Milliseconds kLookAgain{500};

}  // namespace

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
  pollfd state{.fd = client_.fd(), .events = POLLIN | POLLRDHUP, .revents = 0};
  ::poll(&state, 1, 0);
  if ((state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
    gone_ = true;
    on_gone_();
    return;
  }
  if ((state.revents & POLLIN) == 0) {
    wait_readable();
    return;
  }
  timer_ = client_.loop().add_timer(std::chrono::steady_clock::now() + kLookAgain, [this] {
    timer_ = 0;
    look();
  });
}

}  // namespace server
