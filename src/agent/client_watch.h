// Notices that a client has gone while nothing is read from it: its connection ended or its sending
// side was closed, whichever comes first. While it lives nobody else may wait to read from the
// connection. Owned by what answers the client; loop thread only.
#pragma once

#include <functional>

#include "net/stream.h"

namespace agent {

// Whether the peer has closed at least its sending side, now.
bool peer_has_closed(int socket);

class ClientWatch {
 public:
  // `on_gone` is called at most once, from the loop.
  ClientWatch(net::Stream& client, std::function<void()> on_gone);
  ~ClientWatch();
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

 private:
  void watch();
  void look();

  net::Stream& client_;
  std::function<void()> on_gone_;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace agent
