// The gateway as its SSH front sees it: requests of api/ssh-protocol.md over its unix socket, each
// on a connection of its own. Loop thread only. Errors: the gateway's own, or `unavailable` where
// it is not there.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/stream.h"

namespace ssh {

using base::ErrorCode;
using base::Result;
using net::Task;

struct GatewayRequest {
  std::string method;
  std::string target;
  std::string bearer = {};   // a token, or a connection's secret
  std::string address = {};  // the client's, for the audit log
  std::string body = {};     // JSON
};

// A request that was answered with 101: its connection, and what was read ahead of it.
struct GatewayStream {
  std::unique_ptr<net::Stream> stream;
  std::string early;
  std::string connection;  // the secret of a new connection
};

class Gateway {
 public:
  Gateway(net::EventLoop& loop, std::string socket) : loop_(loop), socket_(std::move(socket)) {}

  [[nodiscard]] net::EventLoop& loop() { return loop_; }
  Task<Result<GatewayStream>> ask(GatewayRequest request);

 private:
  net::EventLoop& loop_;
  std::string socket_;
};

}  // namespace ssh
