// `scp -f`: gives files and folders to the peer. Blocking; acts as its process's user.
#pragma once

#include <string>
#include <vector>

#include "agent/scp_message.h"
#include "agent/scp_peer.h"

namespace agent::scp {

// What went wrong was told to the peer and counted.
void send(Peer& peer, const Options& options, const std::vector<std::string>& paths);

}  // namespace agent::scp
