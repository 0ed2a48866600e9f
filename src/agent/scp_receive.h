// `scp -t`: takes files and folders from the peer into a path. Blocking; acts as its process's
// user.
#pragma once

#include <string>

#include "agent/scp_message.h"
#include "agent/scp_peer.h"

namespace agent::scp {

// Ends with the peer, or where it breaks the protocol. What went wrong was told to it and counted.
void receive(Peer& peer, const Options& options, const std::string& target);

}  // namespace agent::scp
