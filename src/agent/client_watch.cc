#include "agent/client_watch.h"

#include <poll.h>

namespace agent {
namespace {

// How often a client that has sent more than its request is looked at.
constexpr base::Milliseconds kClientPoll{1000};

}  // namespace

bool peer_has_closed(int socket) {
  pollfd state{.fd = socket, .events = POLLRDHUP, .revents = 0};
  ::poll(&state, 1, 0);
  return (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

ClientWatch::ClientWatch(net::Stream& client, std::function<void()> on_gone)
    : client_(client), on_gone_(std::move(on_gone)) {
  watch();
}

ClientWatch::~ClientWatch() {
  if (timer_ != 0) {
    client_.loop().remove_timer(timer_);
  }
  if (client_.is_open()) {
    client_.loop().unwatch(client_.fd(), net::EventLoop::Direction::read);
  }
}

void ClientWatch::watch() {
  timer_ = 0;
  client_.loop().watch(client_.fd(), net::EventLoop::Direction::read, [this] { look(); });
}

void ClientWatch::look() {
  if (peer_has_closed(client_.fd())) {
    on_gone_();
    return;
  }
  // The next request is already there: readiness tells nothing more, so time does.
  timer_ =
      client_.loop().add_timer(std::chrono::steady_clock::now() + kClientPoll, [this] { watch(); });
}

}  // namespace agent
