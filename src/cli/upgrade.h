// A request by which a connection to the gateway becomes something else: a WebSocket, a byte
// stream. Non-blocking once begun, or waited for; owned by its user; one thread. An answer other
// than 101 is the gateway's own error. Bounds: a head, kRefusalBytesMax of a refusal, and
// kUpgradeTime where it is waited for.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/connection.h"
#include "wire/http1.h"

namespace cli {

// The gateway reaches the sandbox before it answers, so it gets longer than a connect.
inline constexpr std::chrono::seconds kUpgradeTime{30};

class Upgrade {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // Connects, bounded in time. `target` like "/sandboxes/x/terminal?cols=80".
  static Result<Upgrade> begin(const Endpoint& endpoint, std::string target,
                               std::string_view protocol, const Headers& headers,
                               Interrupt& interrupt);

  [[nodiscard]] int fd() const { return connection_->fd(); }
  // What to poll fd() for.
  [[nodiscard]] short wanted() const;
  // Goes on: true once the answer is 101.
  Result<bool> step();
  // Until then; cancelled when a signal arrives.
  Result<void> wait(Interrupt& interrupt);

  // Once it was answered: the head, what came behind it, and the connection.
  [[nodiscard]] const wire::http::Response& response() const { return *response_; }
  std::string take_early() { return std::exchange(early_, {}); }
  std::unique_ptr<Connection> take_connection() { return std::move(connection_); }

 private:
  Upgrade(std::unique_ptr<Connection> connection, std::string target, std::string head)
      : connection_(std::move(connection)), target_(std::move(target)), out_(std::move(head)) {}
  Result<void> read_head();
  [[nodiscard]] std::unexpected<base::Error> refused() const;

  std::unique_ptr<Connection> connection_;
  std::string target_;
  std::string out_;  // not sent yet
  std::string early_;
  std::optional<wire::http::Response> response_;
  std::optional<wire::http::BodyDecoder> refusal_;
  std::string refusal_body_;
};

}  // namespace cli
