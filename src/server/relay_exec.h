// POST .../exec: one line of JSON and standard input to the agent, the command's output back with
// what became of it in the head. Neither is held here; gzip is put on where the client takes it.
#pragma once

#include <optional>

#include "server/agent_request.h"

namespace server {

// The line at the front of the body, without its newline; what was read behind it is appended to
// `rest`. The end of the body ends the line too. body_too_large past kExecLineBytesMax.
Task<Result<std::string>> read_exec_line(BodySource& body, std::string& rest);

// `first` is the checked line with its newline and what `body` gave behind it. A client that goes
// away cancels the command.
Task<Result<void>> relay_exec(Application& application, Exchange& exchange, LivePtr live,
                              BodySource& body, std::string first);

}  // namespace server
