// What the SSH front (sandbox-ssh) asks the gateway: routes of a socket of its own, which only the
// front's group can reach (api/ssh-protocol.md). Not a part of the public API.
#pragma once

#include "server/route.h"

namespace server {

// not_found, method_not_allowed.
Result<Match> find_ssh_route(std::string_view method, std::string_view path);

}  // namespace server
