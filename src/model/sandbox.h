// What a sandbox is: values shared by gateway, engines and node. Pure data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"
#include "model/network_policy.h"
#include "model/service.h"

namespace model {

using EnvironmentMap = std::map<std::string, std::string>;

// In the order of a life: no state is followed by an earlier one.
enum class SandboxState { queued, starting, ready, failed, deleting, deleted };
std::string_view to_string(SandboxState state);
std::optional<SandboxState> parse_sandbox_state(std::string_view text);

// Limits of one sandbox. millicpus: thousandths of a cpu. 1 MB = 1,048,576 bytes.
struct Resources {
  int64_t millicpus = 0;
  int64_t memory_mb = 0;
  int64_t storage_mb = 0;
  int64_t pids = 1024;
};

// How to reach the registry an image comes from; empty: anonymous HTTPS.
struct RegistryAccess {
  std::string username;
  base::Secret password;  // password or token
  std::string mirror;     // host[:port] tried first
  bool plain_http = false;
};

struct ContainerSpec {
  std::string name = "main";
  std::string image;           // normalised reference, a local name, "dir:/..." or "tar:/..."
  EnvironmentMap environment;  // over the image's
  std::optional<std::string> user;
  std::optional<std::string> workdir;
  bool run_entrypoint = false;     // the image's ENTRYPOINT and CMD, as the session `main`
  bool await_credentials = false;  // that one not before the agent has been given credentials
  // Of a container among several.
  std::optional<Service> service;
  std::string hostname;                      // empty: the sandbox's id, or its name
  std::map<std::string, std::string> hosts;  // more lines of /etc/hosts: name to address
  std::vector<Mount> mounts;
  RegistryAccess registry;  // of its image, where that is another than the sandbox's
  // Limits of its own below the sandbox's; 0: none.
  int64_t millicpus = 0;
  int64_t memory_mb = 0;
  int64_t pids = 0;
};

// What an engine needs to make a sandbox. The first container is `main`; engines that cannot take
// more than one refuse a longer list with not_supported.
struct SandboxSpec {
  std::string id;
  std::vector<ContainerSpec> containers;
  Resources resources;  // of all containers together
  NetworkPolicy network;
  bool no_new_privileges = false;
  bool always_pull = false;
  bool builder = false;  // an image builder: the engine has its image and the profile it needs
  RegistryAccess registry;
};

// The API's `reason` values live in model/reason.h as constants; an engine's failure carries one.

}  // namespace model
