// ClientWatch: notices that a client went away while its answer is awaited. The end of its stream
// counts, half-closed or not; bytes of a next request do not. Loop thread only; on the stack of the
// handler, which must not read from the client meanwhile. HangUpWatch is for handlers that do.
#pragma once

#include <functional>

#include "net/stream.h"

namespace server {

// Whether the peer has closed or shut down its sending side, read or not.
bool has_hung_up(const net::Stream& client);

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

// HangUpWatch: the same while the client's body is read and may not be taken for a long time. Looks
// every half second; on the stack of the handler. The end of a stream comes behind its last bytes,
// and TCP holds those back while nobody takes the ones before: the room for such bytes is made
// larger once, by what a client's kernel may still have to send after the client has gone.
class HangUpWatch {
 public:
  // `on_gone` is called at most once, from the loop.
  HangUpWatch(net::Stream& client, std::function<void()> on_gone);
  HangUpWatch(const HangUpWatch&) = delete;
  HangUpWatch& operator=(const HangUpWatch&) = delete;
  ~HangUpWatch();

  [[nodiscard]] bool gone() const { return gone_; }

 private:
  void wait();
  void look();
  void make_room();

  net::Stream& client_;
  std::function<void()> on_gone_;
  bool gone_ = false;
  bool made_room_ = false;
  int waiting_bytes_ = 0;  // unread when last looked
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace server
