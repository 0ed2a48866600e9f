// Sockets in the sandbox's network that somebody outside asks for: connections to what listens
// there, and listeners. Loop thread only; connecting is bounded by kConnectPatience. Errors:
// conflict with details.reason as in api/agent-protocol.md, permission_denied.
#pragma once

#include <string>

#include "agent/accounts.h"
#include "agent/resolver.h"
#include "base/fd.h"
#include "net/event_loop.h"

namespace agent {

inline constexpr base::Milliseconds kConnectPatience{10'000};

// To the first of the host's addresses that takes it. Non-blocking.
net::Task<Result<base::Fd>> connect_tcp(net::EventLoop& loop, std::string host, uint16_t port);
// With the rights and credentials of the user.
net::Task<Result<base::Fd>> connect_socket(net::EventLoop& loop, std::string path,
                                           Identity identity);
// `host`: an address, "localhost", or "" and "*" for every address. Non-blocking, listening.
Result<base::Fd> listen_tcp(const std::string& host, uint16_t port, const Identity& identity);
Result<base::Fd> listen_socket(const std::string& path, const Identity& identity);
// Where a TCP socket listens, or whom a connection comes from.
HostAddress local_address(int socket);
HostAddress peer_address(int socket);

}  // namespace agent
