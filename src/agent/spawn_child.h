// What a command's process does between clone3 and execve. It shares the agent's memory until
// then, beside the running agent: it only makes raw system calls, reads its plan and writes its
// failure; it has no lock, no allocation and no errno. Built without sanitizers for that reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace agent {

enum class SpawnStep : int {
  none,
  session,
  descriptors,
  terminal,
  identity,
  privileges,
  folder,
  execute
};

struct SpawnFailure {
  SpawnStep step = SpawnStep::none;
  int errno_value = 0;
};

// Where a script that is too long for an argument is handed over; one digit for the shell.
inline constexpr int kScriptFd = 9;

// All the child needs, in pointers and numbers.
struct ChildPlan {
  const char* const* argv = nullptr;
  const char* const* environment = nullptr;
  const char* const* candidates = nullptr;
  int program = -1;  // a descriptor; from 0 on it is run and nothing else
  const char* cwd = nullptr;
  const uint32_t* groups = nullptr;
  size_t group_count = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  int input = 0;
  int output = 1;
  int error = 2;
  int script = -1;
  bool terminal = false;            // input is one, and becomes the session's
  bool is_agents_identity = false;  // the user and groups are those it has
  bool no_new_privileges = false;
  SpawnFailure* failure = nullptr;
};

// `plan` is a ChildPlan. Ends in execve or exits with 127 and a failure.
void run_child(const void* plan) noexcept;

}  // namespace agent
