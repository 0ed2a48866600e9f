// Relay: a request into a sandbox and its agent's answer. The agent is hostile: of its answer only
// a known status, the length and a fixed list of headers are taken over; what is not HTTP or not
// known is 502 agent_failed; when it ends inside a body, so does the client's connection. Buffers
// at most 64 KiB each way. The caller holds the sandbox's lease meanwhile. Loop thread only.
#pragma once

#include <string>

#include "server/application.h"
#include "server/exchange.h"

namespace server {

// `body` was checked; it goes as it is. A client that goes away cancels the command.
Task<Result<void>> relay_run(Application& application, Exchange& exchange, service::LivePtr live,
                             std::string body);

enum class FileAnswer { bytes, json };

// GET or HEAD; `target` is the agent's.
Task<Result<void>> relay_file_read(Application& application, Exchange& exchange,
                                   service::LivePtr live, std::string target, FileAnswer answer);
// PUT: the client's body streams to the agent.
Task<Result<void>> relay_file_write(Application& application, Exchange& exchange,
                                    service::LivePtr live, std::string target);

}  // namespace server
