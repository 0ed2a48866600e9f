// A route whose JSON body starts a command: what `run` and the start of a session have in common.
#pragma once

#include "server/agent_request.h"
#include "service/commands.h"
#include "service/run_request.h"

namespace server {

using ParseCommand = Result<service::RunRequest> (*)(std::string body);
using RelayCommand = Task<Result<void>> (*)(Application& application, Exchange& exchange,
                                            LivePtr live, std::string body);

// Checks the request, tells audit and log of the command, and relays it.
Task<Result<void>> start_command(Application& application, Exchange& exchange,
                                 service::CommandKind kind, ParseCommand parse, RelayCommand relay);

}  // namespace server
