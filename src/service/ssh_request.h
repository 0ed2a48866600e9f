// What an SSH client wants to run, as the front says it, checked once before it goes to the agent.
// Pure; every refusal names its field.
#pragma once

#include "service/run_request.h"

namespace service {

// {"command" or "login_shell": true or "helper" (and its "argv"), "env", "tty"}
base::Result<RunRequest> parse_ssh_command(std::string body);

}  // namespace service
