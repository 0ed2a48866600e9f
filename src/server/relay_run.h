// POST .../run to the agent and its answer back, with the blanks that keep a silent one alive.
#pragma once

#include "server/agent_request.h"

namespace server {

// `body` was checked; it goes as it is. A client that goes away cancels the command.
Task<Result<void>> relay_run(Application& application, Exchange& exchange, LivePtr live,
                             std::string body);

}  // namespace server
