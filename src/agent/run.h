// POST /run: one command from its request to its answer. A coroutine of its connection; buffers
// what OutputStore holds and one slice. Ends with the command; a client that goes away or a
// time-out ends the command's whole tree.
#pragma once

#include <string>

#include "agent/agent.h"
#include "net/http.h"
#include "net/task.h"

namespace agent {

using net::Task;

// Answers on `stream` with keep-alives where the command is silent for long. `body` is the
// request's. Errors before anything was written are for the caller to answer; connection_closed
// and cancelled mean that the connection is of no more use.
Task<Result<void>> run_command(Agent& agent, net::Stream& stream, std::string body,
                               std::string request_id);

}  // namespace agent
