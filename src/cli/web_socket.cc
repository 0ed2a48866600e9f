#include "cli/web_socket.h"

#include <openssl/evp.h>
#include <poll.h>

#include <array>
#include <bit>

#include "cli/upgrade.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::websocket::Event;
using wire::websocket::Opcode;

namespace {

// More than a server of ours puts into one message.
constexpr size_t kMessageBytesMax = 4UL << 20U;
constexpr size_t kReadBytes = 64UL * 1024;
// At one go; then the owner's loop looks at its other ends.
constexpr size_t kReadsInARow = 16;
constexpr size_t kKeyBytes = 16;  // RFC 6455 4.1

// RFC 6455 4.2.2: proves that the other end speaks this protocol.
std::string expected_accept(const std::string& key) {
  const std::string text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  return base::base64({reinterpret_cast<const char*>(digest.data()), size});
}

}  // namespace

WebSocket::WebSocket(std::unique_ptr<Connection> connection, std::string early,
                     base::Random& random)
    : connection_(std::move(connection)),
      random_(random),
      decoder_(wire::websocket::Role::client, kMessageBytesMax),
      early_(std::move(early)) {}

Result<std::unique_ptr<WebSocket>> WebSocket::connect(const Endpoint& endpoint,
                                                      const std::string& target,
                                                      Interrupt& interrupt, base::Random& random) {
  std::array<unsigned char, kKeyBytes> secret{};
  random.fill(secret);
  const std::string key =
      base::base64({reinterpret_cast<const char*>(secret.data()), secret.size()});
  ASSIGN_OR_RETURN(
      auto upgrade,
      Upgrade::begin(endpoint, target, "websocket",
                     {{"Sec-WebSocket-Version", "13"}, {"Sec-WebSocket-Key", key}}, interrupt));
  RETURN_IF_ERROR(upgrade.wait(interrupt));
  const std::string* accept = upgrade.response().find("sec-websocket-accept");
  if (accept == nullptr || *accept != expected_accept(key)) {
    return fail(ErrorCode::internal, "the answer to ", target, " is no WebSocket's");
  }
  std::string early = upgrade.take_early();
  return std::unique_ptr<WebSocket>(
      new WebSocket(upgrade.take_connection(), std::move(early), random));
}

short WebSocket::wanted() const { return unsent() > 0 ? POLLIN | POLLOUT : POLLIN; }

void WebSocket::queue(Opcode opcode, std::string_view payload) {
  std::array<unsigned char, 4> secret{};
  random_.fill(secret);
  const auto key = std::bit_cast<std::array<char, 4>>(secret);
  out_.erase(0, std::exchange(sent_, 0));
  out_ += wire::websocket::make_masked_frame(opcode, payload, key);
}

Result<void> WebSocket::flush() {
  while (unsent() > 0) {
    ASSIGN_OR_RETURN(const size_t sent, connection_->send(std::string_view(out_).substr(sent_)));
    if (sent == 0) {
      return {};
    }
    sent_ += sent;
  }
  out_.clear();
  sent_ = 0;
  return {};
}

Result<bool> WebSocket::receive(const Handler& handler) {
  RETURN_IF_ERROR(decode(std::exchange(early_, {}), handler));
  std::string buffer(kReadBytes, '\0');
  for (size_t read = 0; read < kReadsInARow; ++read) {
    ASSIGN_OR_RETURN(const size_t got, connection_->receive(buffer));
    if (got == 0) {
      return false;
    }
    received_ += got;
    RETURN_IF_ERROR(decode(std::string_view(buffer).substr(0, got), handler));
  }
  return true;
}

Result<void> WebSocket::decode(std::string_view bytes, const Handler& handler) {
  while (!bytes.empty()) {
    const auto step = decoder_.next(bytes);
    if (!step) {
      return fail(ErrorCode::internal,
                  "the gateway sent a wrong WebSocket frame: ", step.error().reason);
    }
    bytes.remove_prefix(step->consumed);
    if (step->event) {
      RETURN_IF_ERROR(take(*step->event, handler));
    }
  }
  return {};
}

Result<void> WebSocket::take(const Event& event, const Handler& handler) {
  switch (event.kind) {
    case Event::Kind::ping:
      queue(Opcode::pong, event.payload);
      return flush();
    case Event::Kind::pong:
      return {};
    case Event::Kind::close:
      return fail(ErrorCode::connection_closed, "the gateway closed the WebSocket",
                  event.payload.empty() ? "" : ": ", event.payload);
    default:
      return handler(event);
  }
}

}  // namespace cli
