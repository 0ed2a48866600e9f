// What every request that starts a command says: a value that cannot be wrong. Bounds: the body's
// size (the server's), argv as the kernel takes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.h"
#include "base/clock.h"
#include "wire/json.h"

namespace agent {

struct CommandRequest {
  // Exactly one of the two.
  std::vector<std::string> argv;
  std::optional<std::string> command;
  bool is_helper = false;  // argv is one of own_programs.h, and the agent's own binary is run
  Environment environment;
  std::string cwd;  // empty: the default
  std::optional<std::string> user;
  std::optional<base::Milliseconds> timeout;
  std::string program;  // what argv is given to when it is not argv[0]; never from a request
};

// Takes these fields off the reader; the caller takes its own and calls finish().
Result<CommandRequest> read_command_request(wire::json::Reader& reader);

}  // namespace agent
