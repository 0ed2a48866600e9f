// Plain byte streams between a client and a sandbox (docs/streams.md): after the agent's 101 both
// connections belong to each other, inside the kernel where bytes are many. Loop thread only.
#pragma once

#include "server/agent_request.h"

namespace server {

inline constexpr std::string_view kStreamProtocol = "sandbox-stream";

// malformed for a request that does not ask for the protocol.
Result<void> check_stream_upgrade(const wire::http::Request& request);

// `body` was checked. From 101 on the end of one direction is passed on and the other goes on.
Task<Result<void>> relay_stream(Application& application, Exchange& exchange, LivePtr live,
                                const std::string& target, std::string body);

}  // namespace server
