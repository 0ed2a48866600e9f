// POST /stream: a command whose output is told as it comes, in lines of JSON. A coroutine of its
// connection; holds one piece of output at a time, so a slow reader holds the command up. Ends with
// the command; a client that goes away or a time-out ends the command's whole tree.
#pragma once

#include <string>

#include "agent/agent.h"
#include "net/http.h"

namespace agent {

using net::Task;

// Errors before anything was written are for the caller to answer; connection_closed and cancelled
// mean that the connection is of no more use. `body` is the request's.
Task<Result<void>> stream_command(Agent& agent, net::Stream& stream, std::string body);

}  // namespace agent
