// One connection to the gateway that carries bytes both ways: libcurl makes it (names, TLS,
// proxies), whoever owns it speaks on it. Non-blocking once open; one thread; closes with the
// object. Opening is bounded in time and ends early when a signal arrives (code cancelled).
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "cli/http_client.h"

namespace cli {

class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const Endpoint& endpoint, Interrupt& interrupt);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // To poll. With TLS bytes may be waiting that poll does not see: receive until it gives 0.
  [[nodiscard]] int fd() const { return fd_; }
  // How many bytes went; 0 when there is no room now.
  Result<size_t> send(std::string_view bytes);
  // How many bytes came; 0 when there are none now. connection_closed at the end.
  Result<size_t> receive(std::span<char> buffer);

 private:
  struct Handle;
  explicit Connection(std::unique_ptr<Handle> handle);

  std::unique_ptr<Handle> handle_;
  int fd_ = -1;
};

}  // namespace cli
