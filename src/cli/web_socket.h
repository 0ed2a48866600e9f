// A WebSocket to the gateway: the client's handshake and a thin loop over Connection; the frames
// are wire/websocket. Owned by its user; one thread. Sending queues, at most what its owner lets
// it; pings are answered here. An answer other than 101 is the gateway's own error.
#pragma once

#include <memory>
#include <string>

#include "base/random.h"
#include "cli/connection.h"
#include "wire/websocket.h"

namespace cli {

class WebSocket {
 public:
  using Handler = std::function<Result<void>(const wire::websocket::Event&)>;

  // `target` like "/sandboxes/x/terminal?cols=80". Bounded in time.
  static Result<std::unique_ptr<WebSocket>> connect(const Endpoint& endpoint,
                                                    const std::string& target, Interrupt& interrupt,
                                                    base::Random& random);

  [[nodiscard]] int fd() const { return connection_->fd(); }
  // What to poll fd() for.
  [[nodiscard]] short wanted() const;
  // Bytes in all, to tell whether the other end is there.
  [[nodiscard]] size_t received() const { return received_; }
  // Takes what is there, a bounded amount, and gives text and binary messages to `handler`.
  // connection_closed when the other end said goodbye or is gone. True: more is waiting.
  Result<bool> receive(const Handler& handler);
  void queue(wire::websocket::Opcode opcode, std::string_view payload);
  // Sends as much of the queue as there is room for.
  Result<void> flush();
  [[nodiscard]] size_t unsent() const { return out_.size() - sent_; }

 private:
  WebSocket(std::unique_ptr<Connection> connection, std::string early, base::Random& random);
  Result<void> decode(std::string_view bytes, const Handler& handler);
  Result<void> take(const wire::websocket::Event& event, const Handler& handler);

  std::unique_ptr<Connection> connection_;
  base::Random& random_;
  wire::websocket::Decoder decoder_;
  std::string early_;  // came right behind the handshake's answer
  std::string out_;
  size_t sent_ = 0;
  size_t received_ = 0;
};

}  // namespace cli
