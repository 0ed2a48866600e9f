// From a request to what spawn() takes: user, environment, folder and program.
#pragma once

#include <memory>

#include "agent/agent.h"
#include "agent/command_request.h"

namespace agent {

struct CommandSetup {
  SpawnRequest spawn;
  std::unique_ptr<ProcessTree> tree;
  base::Fd script;  // a command too long for an argument
};

// Errors: user_unknown; agent_failed when there are no descriptors left.
Result<CommandSetup> prepare_command(Agent& agent, const CommandRequest& request);

// Paths that execve is to try for a program of that name.
std::vector<std::string> program_candidates(std::string_view name, std::string_view search_path);

}  // namespace agent
