// Requests about sessions to the agent and their answers back: small ones, logs that may be
// followed without end, standard input, and WebSockets.
#pragma once

#include "server/agent_request.h"

namespace server {

// The method of the request itself; `body` was checked. The agent may take `patience` to answer; a
// client that goes away meanwhile ends the wait.
Task<Result<void>> relay_session_call(Application& application, Exchange& exchange, LivePtr live,
                                      const std::string& target, std::string body,
                                      base::Milliseconds patience);

// POST /sessions with that body.
Task<Result<void>> relay_session_start(Application& application, Exchange& exchange, LivePtr live,
                                       std::string body);

Task<Result<void>> relay_session_log(Application& application, Exchange& exchange, LivePtr live,
                                     const std::string& target);

Task<Result<void>> relay_session_input(Application& application, Exchange& exchange, LivePtr live,
                                       BodySource& body, const std::string& target);

// The handshake was checked. From 101 on bytes go both ways until either end closes.
Task<Result<void>> relay_websocket(Application& application, Exchange& exchange, LivePtr live,
                                   const std::string& target);

}  // namespace server
