// A channel and a plain stream of bytes of the gateway's, each given what the other sends. Loop
// thread only.
#pragma once

#include "ssh/channel.h"
#include "ssh/gateway.h"

namespace ssh {

// What is over when the stream has nothing more to say: all of it (a command's streams), or that
// direction only (a connection's).
enum class EndOfOutput { ends_all, ends_itself };

// Until that is the case, both directions have ended, or either side is gone.
Task<void> pump(Channel& channel, GatewayStream stream, EndOfOutput end);

}  // namespace ssh
