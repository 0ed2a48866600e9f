// An SSH client's channels as streams between the front and the agent. Loop thread only; what a
// busy one holds is net/stream_pump's.
#pragma once

#include <string>

#include "server/agent_request.h"

namespace server {

// A request that the agent answers with 101: from then on bytes both ways. With `halves` each
// direction ends for itself; without, they are a command's frames, the end of one is the end of
// both, and the exchange is told of the exit code. A front that closes its connection ends the
// agent's at once.
struct SshStream {
  std::string method;
  std::string target;
  std::string body;
  std::string_view upgrade;  // what the connection becomes
  bool halves = false;
};
Task<Result<void>> relay_ssh_stream(Application& application, Exchange& exchange, LivePtr live,
                                    SshStream stream);

// A WebSocket whose binary messages are the bytes of an SSH client, and `front` those bytes.
Task<void> pump_tunnel(Exchange& exchange, net::Stream& front);

}  // namespace server
