#include "server/websocket.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>

namespace server {
namespace {

constexpr std::string_view kBearer = "bearer.";
// RFC 6455 1.3.
constexpr std::string_view kAcceptGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr size_t kKeyBytes = 16;

// Whether a comma-separated header names `wanted`, in any case of letters.
bool names(const wire::http::Request& request, std::string_view header, std::string_view wanted) {
  const std::string* value = request.find(header);
  if (value == nullptr) {
    return false;
  }
  const auto parts = base::split(*value, ',');
  return std::ranges::any_of(parts, [wanted](std::string_view part) {
    return base::equals_ignoring_case(base::trim(part), wanted);
  });
}

std::string accept_of(const std::string& key) {
  const std::string text = base::cat(key, kAcceptGuid);
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  ::SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return base::base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::unexpected<Error> not_a_handshake(std::string_view why) {
  return base::fail(ErrorCode::malformed, "not a WebSocket handshake: ", why);
}

// The protocols that the client offers.
std::vector<std::string_view> offered(const wire::http::Request& request) {
  std::vector<std::string_view> out;
  const std::string* value = request.find("sec-websocket-protocol");
  if (value != nullptr) {
    for (const std::string_view part : base::split(*value, ',')) {
      out.push_back(base::trim(part));
    }
  }
  return out;
}

}  // namespace

Result<Handshake> check_handshake(const wire::http::Request& request) {
  if (request.method != "GET" || request.body != wire::http::BodyKind::none) {
    return not_a_handshake("it must be a GET without a body");
  }
  if (!names(request, "connection", "upgrade") || !names(request, "upgrade", "websocket")) {
    return not_a_handshake("'Connection: Upgrade' and 'Upgrade: websocket' are missing");
  }
  const std::string* version = request.find("sec-websocket-version");
  if (version == nullptr || *version != "13") {
    return not_a_handshake("'Sec-WebSocket-Version' must be 13");
  }
  const std::string* key = request.find("sec-websocket-key");
  const auto nonce = key == nullptr ? std::nullopt : base::decode_base64(*key);
  if (!nonce || nonce->size() != kKeyBytes) {
    return not_a_handshake("'Sec-WebSocket-Key' must be 16 bytes in base64");
  }
  const auto protocols = offered(request);
  const bool is_ours = std::ranges::find(protocols, kSubprotocol) != protocols.end();
  if (!protocols.empty() && !is_ours) {
    return not_a_handshake("of the subprotocols only sandbox.v1 is spoken");
  }
  return Handshake{.accept = accept_of(*key), .with_subprotocol = is_ours};
}

std::optional<std::string> websocket_authorization(const wire::http::Request& request) {
  if (const std::string* authorization = request.find("authorization")) {
    return *authorization;
  }
  for (const std::string_view protocol : offered(request)) {
    if (protocol.starts_with(kBearer)) {
      return base::cat("Bearer ", protocol.substr(kBearer.size()));
    }
  }
  return std::nullopt;
}

Task<Result<service::Caller>> websocket_caller(Application& application,
                                               const wire::http::Request& request) {
  CO_ASSIGN_OR_RETURN(const auto ticket, request.parameter("ticket"));
  if (ticket) {
    CO_ASSIGN_OR_RETURN(const service::Caller caller, co_await application.tickets.redeem(*ticket));
    co_return application.access.look_again(caller);
  }
  co_return application.access.authenticate(nullptr);
}

Task<Result<service::Caller>> header_caller(Application& application,
                                            const std::string* authorization) {
  auto caller = application.access.authenticate(authorization);
  if (!caller && authorization != nullptr) {
    // One that another gateway has made may not be known here yet.
    if (std::string sandbox = application.access.sandbox_in(*authorization); !sandbox.empty()) {
      co_await application.sandboxes.look(std::move(sandbox), service::Sandboxes::Look::usable);
      co_return application.access.authenticate(authorization);
    }
    const bool found = co_await application.access.look_up(*authorization);
    if (found) {
      co_return application.access.authenticate(authorization);
    }
  }
  co_return caller;
}

}  // namespace server
