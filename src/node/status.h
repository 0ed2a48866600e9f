// What the node says of a sandbox, and of what happened to it (api/node-protocol.md). Values.
#pragma once

#include <cstdint>
#include <string>

namespace node {

enum class State { starting, ready, failed };

struct Status {
  std::string id;
  State state = State::starting;
  std::string reason;
  std::string message;
  std::string image_digest;
  int64_t pull_ms = 0;
  int64_t start_ms = 0;
};

// One thing that happened. `type`: pulling, pulled, starting, out_of_memory, policy_denied (the
// status has its reason), or empty when only the status changed.
struct Change {
  std::string type;
  std::string message;
  Status status;
};

}  // namespace node
