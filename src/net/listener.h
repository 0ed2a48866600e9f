// Listener: a listening stream socket (TCP or unix) whose connections are taken one by one by a
// coroutine. Loop thread only. Running out of descriptors is waited out, not reported: the
// backlog holds the clients meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "net/event_loop.h"
#include "net/task.h"

namespace net {

// A non-blocking socket bound to "127.0.0.1:8080", "[::1]:0" or "0.0.0.0:80" and listening.
// Names are not resolved. Port 0 takes a free one.
Result<base::Fd> listen_tcp(const std::string& address, int backlog);

// A connection to such an address, non-blocking and without delay. unavailable: nobody takes it;
// deadline_exceeded, cancelled.
Task<Result<base::Fd>> connect_tcp(EventLoop& loop, std::string address, Deadline deadline);

// Whether `address` has that form; the error says what is wrong.
Result<void> check_address(const std::string& address);

// The other end's address without its port, "192.0.2.1"; "" for what is no TCP connection.
std::string peer_address(int fd);

class Listener {
 public:
  // `socket` listens and is non-blocking (listen_tcp, base::sys::listen_unix, or handed over).
  Listener(EventLoop& loop, base::Fd socket) : loop_(loop), socket_(std::move(socket)) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { close(); }

  // The next connection, non-blocking, CLOEXEC, TCP without delay. Errors: cancelled; io when the
  // socket itself is broken.
  Task<Result<base::Fd>> accept();
  // The port it is bound to; 0 for unix sockets.
  [[nodiscard]] uint16_t port() const;
  // Stops listening; only while no accept() waits.
  void close();

 private:
  EventLoop& loop_;
  base::Fd socket_;
};

}  // namespace net
