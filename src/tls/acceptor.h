// Acceptor: takes TLS connections at one listening socket and hands over their bytes in the clear,
// each as the near end of a socket pair. Works on the loop that it is given, whose thread it is
// used on. Bounds: those it is given; a handshake has kHandshakePatience, and where there are too
// many the oldest ends. Who asks in plain HTTP is told.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "net/listener.h"
#include "net/stream.h"
#include "net/task_group.h"
#include "tls/context.h"

namespace tls {

class Acceptor {
 public:
  // The near end of a new connection, non-blocking, and its client's address.
  using Handover = std::function<void(base::Fd plain, std::string remote)>;
  struct Bounds {
    size_t connections = 0;  // those in their handshake included; what is more is closed
    size_t handshakes = 0;
  };

  // `socket` listens and is non-blocking.
  Acceptor(net::EventLoop& loop, base::Log& log, base::Fd socket, std::shared_ptr<Context> context,
           Bounds bounds, Handover handover);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Accepts until it is cancelled; what was accepted goes on. Once.
  net::Task<void> run();
  // Ends every connection; before it goes.
  net::Task<void> end();
  // For connections from now on.
  void use(std::shared_ptr<Context> context) { context_ = std::move(context); }
  [[nodiscard]] size_t connections() const { return connections_.size(); }
  [[nodiscard]] uint16_t port() const { return listener_.port(); }

 private:
  struct Handshake {
    int socket = -1;
  };
  net::Task<void> serve(base::Fd socket);
  net::Task<SslPointer> greet(net::Stream& client);
  net::Task<bool> speaks_tls(net::Stream& client, net::Deadline deadline);

  net::EventLoop& loop_;
  base::Log& log_;
  Bounds bounds_;
  Handover handover_;
  std::shared_ptr<Context> context_;
  std::vector<char> scratch_;
  std::list<Handshake> handshakes_;  // the oldest first
  net::Listener listener_;
  net::TaskGroup connections_;
};

}  // namespace tls
