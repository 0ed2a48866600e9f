// ClientWatch: notices that a client went away while its answer is awaited. The end of its stream
// counts, half-closed or not; bytes of a next request do not. Loop thread only; on the stack of the
// handler, which must not read from the client meanwhile.
#pragma once

#include <functional>

#include "net/stream.h"

namespace server {

class ClientWatch {
 public:
  // `on_gone` is called at most once, from the loop.
  ClientWatch(net::Stream& client, std::function<void()> on_gone);
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;
  ~ClientWatch();

  [[nodiscard]] bool gone() const { return gone_; }

 private:
  void look();
  void wait_readable();

  net::Stream& client_;
  std::function<void()> on_gone_;
  bool gone_ = false;
  bool watching_ = false;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace server
