#include "cli/web_socket.h"

#include <openssl/evp.h>
#include <poll.h>

#include <array>
#include <bit>
#include <chrono>

#include "cli/api.h"
#include "wire/http1.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::websocket::Event;
using wire::websocket::Opcode;

namespace {

// The gateway reaches the sandbox before it answers, so it gets longer than a connect.
constexpr std::chrono::seconds kHandshakeTime{30};
// More than a server of ours puts into one message.
constexpr size_t kMessageBytesMax = 4UL << 20U;
constexpr size_t kReadBytes = 64UL * 1024;
// At one go; then the owner's loop looks at its other ends.
constexpr size_t kReadsInARow = 16;
constexpr size_t kRefusalBytesMax = 64UL * 1024;
constexpr size_t kKeyBytes = 16;  // RFC 6455 4.1

// RFC 6455 4.2.2: proves that the other end speaks this protocol.
std::string expected_accept(const std::string& key) {
  const std::string text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  return base::base64({reinterpret_cast<const char*>(digest.data()), size});
}

struct UrlParts {
  std::string host;  // with the port, as a Host header has it
  std::string prefix;
};
UrlParts split_url(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);  // parse_gateway_url has made sure
  const size_t slash = url.find('/');
  return {std::string(url.substr(0, slash)),
          slash == url.npos ? "" : std::string(url.substr(slash))};
}

}  // namespace

WebSocket::WebSocket(std::unique_ptr<Connection> connection, base::Random& random)
    : connection_(std::move(connection)),
      random_(random),
      decoder_(wire::websocket::Role::client, kMessageBytesMax) {}

Result<std::unique_ptr<WebSocket>> WebSocket::connect(const Endpoint& endpoint,
                                                      const std::string& target,
                                                      Interrupt& interrupt, base::Random& random) {
  ASSIGN_OR_RETURN(auto connection, Connection::open(endpoint, interrupt));
  auto socket = std::unique_ptr<WebSocket>(new WebSocket(std::move(connection), random));
  RETURN_IF_ERROR(socket->shake_hands(endpoint, target, interrupt));
  return socket;
}

Result<void> WebSocket::shake_hands(const Endpoint& endpoint, const std::string& target,
                                    Interrupt& interrupt) {
  const UrlParts url = split_url(endpoint.url);
  std::array<unsigned char, kKeyBytes> secret{};
  random_.fill(secret);
  const std::string key =
      base::base64({reinterpret_cast<const char*>(secret.data()), secret.size()});
  auto request = wire::http::HeadBuilder::request("GET", url.prefix + request_target(target));
  request.add("Host", url.host)
      .add("User-Agent", "sandbox-cli/" SANDBOX_VERSION)
      .add("Connection", "Upgrade")
      .add("Upgrade", "websocket")
      .add("Sec-WebSocket-Version", "13")
      .add("Sec-WebSocket-Key", key);
  if (!endpoint.token.empty()) {
    request.add("Authorization", "Bearer " + endpoint.token.reveal());  // as every request
  }
  out_ = request.finish();
  ASSIGN_OR_RETURN(const auto head, read_head(interrupt));
  auto response = wire::http::parse_response(head, "GET");
  if (!response) {
    return fail(ErrorCode::internal, "the answer to ", target, " is not HTTP");
  }
  if (response->status != 101) {
    return refused(head, interrupt);
  }
  const std::string* accept = response->find("sec-websocket-accept");
  if (accept == nullptr || *accept != expected_accept(key)) {
    return fail(ErrorCode::internal, "the answer to ", target, " is no WebSocket's");
  }
  return {};
}

// Sends the request and reads until the answer's head is whole; what follows goes to early_.
Result<std::string> WebSocket::read_head(Interrupt& interrupt) {
  const auto end = std::chrono::steady_clock::now() + kHandshakeTime;
  std::string buffer(kReadBytes, '\0');
  while (true) {
    RETURN_IF_ERROR(flush());
    ASSIGN_OR_RETURN(const size_t got, connection_->receive(buffer));
    early_.append(buffer, 0, got);
    ASSIGN_OR_RETURN(const auto size, wire::http::find_head(early_));
    if (size) {
      std::string head = early_.substr(0, *size);
      early_.erase(0, *size);
      return head;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    ASSIGN_OR_RETURN(const bool ready,
                     interrupt.wait_for(fd(), wanted(), static_cast<int>(left.count())));
    if (!ready) {
      return fail(ErrorCode::deadline_exceeded,
                  "the gateway did not answer the WebSocket's "
                  "handshake");
    }
  }
}

Result<void> WebSocket::refused(std::string_view head, Interrupt& interrupt) {
  ASSIGN_OR_RETURN(const auto response, wire::http::parse_response(head, "GET"));
  HttpResponse answer{.status = response.status};
  wire::http::BodyDecoder body(response);
  std::string buffer(kReadBytes, '\0');
  while (!body.finished() && answer.body.size() < kRefusalBytesMax) {
    const auto step = body.next(early_);
    if (step && step->consumed > 0) {
      answer.body += step->payload;
      early_.erase(0, step->consumed);
      continue;
    }
    auto got = connection_->receive(buffer);
    if (!step || !got) {
      break;  // what there is must do
    }
    early_.append(buffer, 0, *got);
    if (*got == 0) {
      RETURN_IF_ERROR(interrupt.wait_for(fd(), POLLIN));
    }
  }
  return std::unexpected(parse_error_answer(answer));
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
