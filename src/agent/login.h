// What a login gives a command: the user's own shell as a login shell, and the variables that
// programs on a terminal expect. Functions of the routes that start one.
#pragma once

#include "agent/agent.h"
#include "agent/session_request.h"

namespace agent {

// Makes it a login shell of its user (the sandbox's where it names none). Errors: user_unknown.
Result<void> make_login(Agent& agent, SessionRequest& request);

// TERM and LANG of one that has a terminal, where neither the request nor the sandbox says them.
void add_terminal_environment(const Agent& agent, SessionRequest& request);

}  // namespace agent
