// Starts one command: clone3 and a child that makes only raw system calls until execve. Owned by
// the run that waits for the command; loop thread only. What goes wrong in the child is told by
// {step, errno} in memory that it shares with the agent, to be read once the child was reaped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/accounts.h"
#include "base/error.h"
#include "base/fd.h"

namespace agent {

struct SpawnRequest {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<std::string> candidates;   // paths to try for argv[0], in order
  std::string cwd;
  Identity identity;
  int input = 0;
  int output = 1;
  int error = 2;
  int script = -1;  // becomes kScriptFd
  int cgroup = -1;  // to start in; below 0: the agent's own
  bool no_new_privileges = false;
};

// Where a script that is too long for an argument is handed over; one digit for the shell.
inline constexpr int kScriptFd = 9;

enum class SpawnStep : int { none, session, descriptors, identity, privileges, folder, execute };

struct SpawnFailure {
  SpawnStep step = SpawnStep::none;
  int errno_value = 0;
};

struct SpawnMemory;

class SpawnedCommand {
 public:
  ~SpawnedCommand();
  SpawnedCommand(const SpawnedCommand&) = delete;
  SpawnedCommand& operator=(const SpawnedCommand&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Valid after the child was reaped.
  [[nodiscard]] SpawnFailure failure() const;

 private:
  friend class Spawner;
  SpawnedCommand() = default;

  SpawnRequest request_;
  std::vector<const char*> argv_;
  std::vector<const char*> environment_;
  std::vector<const char*> candidates_;
  SpawnMemory* memory_ = nullptr;
  pid_t pid_ = 0;
};

class Spawner {
 public:
  // Commands are preferred victims when memory runs out; where /proc/self/oom_score_adj cannot be
  // opened they are as likely ones as the agent.
  Spawner();
  // Fails when there is no process to be had (EAGAIN: the sandbox's limit) or the cgroup is
  // refused. The command must not be destroyed before the child was reaped.
  Result<std::unique_ptr<SpawnedCommand>> spawn(SpawnRequest request);

 private:
  void set_oom_score(std::string_view value);

  base::Fd oom_score_;
};

}  // namespace agent
