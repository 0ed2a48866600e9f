// TLS between a gateway and a sandbox's agent that is reached over a network: each end shows a
// certificate that it makes itself of the sandbox's key pair, with the sandbox's id as its name,
// and takes nothing but a certificate of the same key and name. So neither talks to another sandbox
// that has got the address meanwhile, nor to anybody else. TLS 1.3; nothing is resumed.
#pragma once

#include <memory>
#include <string>

#include "net/stream.h"
#include "net/task_group.h"
#include "tls/context.h"

namespace tls {

// TCP and TLS together.
inline constexpr base::Milliseconds kConnectPatience{10'000};

// A connection to whoever listens at ADDRESS:PORT and holds the pin (Context::pinned): the near end
// of a socket pair that is read and written like the agent's own socket, non-blocking. `tunnels`
// carries its bytes until either end closes. The agent refuses a wrong pin behind the handshake:
// then the connection ends before its first answer. unavailable: nobody is there;
// connection_closed: somebody else is, or an agent of another version; deadline_exceeded,
// cancelled.
net::Task<net::Result<base::Fd>> connect_pinned(net::EventLoop& loop, net::TaskGroup& tunnels,
                                                std::string address,
                                                std::shared_ptr<Context> context,
                                                base::Milliseconds patience = kConnectPatience);

}  // namespace tls
