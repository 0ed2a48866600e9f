// The handshake of a WebSocket (RFC 6455 section 4) and who asks for it. What comes after it is
// passed on and not looked at. Pure but for redeeming a ticket.
#pragma once

#include <optional>
#include <string>

#include "server/application.h"
#include "server/exchange.h"

namespace server {

inline constexpr std::string_view kSubprotocol = "sandbox.v1";

struct Handshake {
  std::string accept;             // Sec-WebSocket-Accept
  bool with_subprotocol = false;  // it was offered, so it is selected
};

// malformed for anything that is not a handshake of version 13.
Result<Handshake> check_handshake(const wire::http::Request& request);

// The value of Authorization, or what stands for it in the offered subprotocol `bearer.TOKEN`.
std::optional<std::string> websocket_authorization(const wire::http::Request& request);
// Without that: by the parameter `ticket`.
Task<Result<service::Caller>> websocket_caller(Application& application,
                                               const wire::http::Request& request);
// By the header's value or nullptr; a token that another gateway has just made is looked up.
Task<Result<service::Caller>> header_caller(Application& application,
                                            const std::string* authorization);

}  // namespace server
