// POST /exec: one line of JSON and the command's input in, its output as bytes out. A coroutine of
// its connection; input passes through one pipe, output waits in the sandbox's own storage, so
// memory does not grow with either. Ends with the command; a client that goes away or a time-out
// ends the command's whole tree.
#pragma once

#include "agent/agent.h"
#include "net/http.h"

namespace agent {

using net::Task;

// Errors before anything was written are for the caller to answer; connection_closed and cancelled
// mean that the connection is of no more use.
Task<Result<void>> exec_command(Agent& agent, net::Stream& stream, net::HttpReader& reader,
                                const wire::http::Request& request);

}  // namespace agent
