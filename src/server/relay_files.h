// File requests to the agent and their answers back.
#pragma once

#include "server/agent_request.h"

namespace server {

enum class FileAnswer { bytes, json };

// GET or HEAD; `target` is the agent's.
Task<Result<void>> relay_file_read(Application& application, Exchange& exchange, LivePtr live,
                                   const std::string& target, FileAnswer answer);
// PUT: the client's body streams to the agent.
Task<Result<void>> relay_file_write(Application& application, Exchange& exchange, LivePtr live,
                                    const std::string& target);
// Server-Sent Events until the client leaves, which ends the agent's watch.
Task<Result<void>> relay_file_watch(Application& application, Exchange& exchange, LivePtr live,
                                    const std::string& target);
// DELETE or POST without a body.
Task<Result<void>> relay_file_change(Application& application, Exchange& exchange, LivePtr live,
                                     const std::string& target);

}  // namespace server
