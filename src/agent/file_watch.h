// GET /files/watch: changes of a folder as Server-Sent Events until the client leaves or the
// folder is gone. A coroutine of its connection; at most kWatchesMax of them a sandbox. A client
// that reads slowly makes the kernel drop changes, which is told.
#pragma once

#include "agent/agent.h"
#include "agent/file_request.h"
#include "net/stream.h"

namespace agent {

// The host has 128 inotify instances by default, for all sandboxes together.
inline constexpr size_t kWatchesMax = 8;

net::Task<Result<void>> watch_files(Agent& agent, net::Stream& client, FileRequest request);

}  // namespace agent
