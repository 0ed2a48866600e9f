// What the agent is told at its start (api/agent-protocol.md, "Configuration"): a value, read once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/service.h"

namespace agent {

using base::ErrorCode;
using base::Result;
using Environment = std::map<std::string, std::string>;

// The container's own command, which is run when the sandbox's start comes to it.
struct ServiceConfig {
  std::vector<std::string> argv;  // empty: none, the container waits for what it is asked
  bool terminal = false;
  bool input = false;
  model::Restart restart = model::Restart::no;
  int64_t restarts_max = 0;
  std::optional<model::Healthcheck> healthcheck;
};

// What is mounted in the container.
struct MountConfig {
  std::string path;
  bool copy = false;  // a fresh one begins with what the image has there
};

struct Config {
  Environment environment;
  std::string user;
  std::string workdir = "/";
  bool no_new_privileges = false;
  std::vector<std::string> entrypoint;  // run as the session `main`; empty: none
  bool await_credentials = false;       // the entrypoint is not run before there are some
  std::optional<ServiceConfig> service;
  std::vector<MountConfig> mounts;
  std::string session_prefix = "s";  // of the ids of sessions
};

// Unknown fields are ignored: a newer node may start an older agent.
Result<Config> parse_config(std::string_view text);
// From the working directory on where the path is relative; an empty one is that folder.
std::string from_workdir(const Config& config, std::string_view path);

}  // namespace agent
