// What the agent is told at its start (api/agent-protocol.md, "Configuration"): a value, read once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace agent {

using base::ErrorCode;
using base::Result;
using Environment = std::map<std::string, std::string>;

struct Config {
  Environment environment;
  std::string user;
  std::string workdir = "/";
  bool no_new_privileges = false;
  std::vector<std::string> entrypoint;  // run as the session `main`; empty: none
};

// Unknown fields are ignored: a newer node may start an older agent.
Result<Config> parse_config(std::string_view text);

}  // namespace agent
