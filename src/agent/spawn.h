// Starts commands: clone3 and a child that shares the agent's memory until execve (spawn_child.h),
// since copying an address space costs more than all the rest. The agent runs on meanwhile. Owned
// by the agent; loop thread only. What goes wrong in the child is told by {step, errno}, to be read
// once the child was reaped.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/accounts.h"
#include "agent/spawn_child.h"
#include "base/error.h"
#include "base/fd.h"
#include "net/event_loop.h"

namespace agent {

struct SpawnRequest {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<std::string> candidates;   // paths to try for argv[0], in order
  int program = -1;                      // what is run in place of them
  std::string cwd;
  Identity identity;
  int input = 0;
  int output = 1;
  int error = 2;
  int script = -1;        // becomes kScriptFd
  int cgroup = -1;        // to start in; below 0: the agent's own
  bool terminal = false;  // `input` becomes the controlling terminal
  bool no_new_privileges = false;
};

struct Launch;
using Stack = std::unique_ptr<std::byte[]>;

class SpawnedCommand {
 public:
  SpawnedCommand(std::shared_ptr<const Launch> launch, pid_t pid)
      : launch_(std::move(launch)), pid_(pid) {}
  SpawnedCommand(const SpawnedCommand&) = delete;
  SpawnedCommand& operator=(const SpawnedCommand&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Valid after the child was reaped.
  [[nodiscard]] SpawnFailure failure() const;

 private:
  std::shared_ptr<const Launch> launch_;
  pid_t pid_;
};

class Spawner {
 public:
  // Commands are preferred victims when memory runs out; where /proc/self/oom_score_adj cannot be
  // opened they are as likely ones as the agent.
  explicit Spawner(net::EventLoop& loop);
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;
  // Waits for children that are still before their execve.
  ~Spawner();

  // Fails when there is no process to be had (EAGAIN: the sandbox's limit) or the cgroup is
  // refused. The descriptors can be closed as soon as it returns.
  Result<std::unique_ptr<SpawnedCommand>> spawn(SpawnRequest request);

 private:
  void settle();
  void collect();
  void keep(Stack stack);
  void set_oom_score(std::string_view value);

  net::EventLoop& loop_;
  base::Fd oom_score_;
  bool is_score_raised_ = false;
  Identity own_;                                    // the agent's; its home is not looked at
  std::vector<std::shared_ptr<Launch>> launching_;  // their children use our memory
  std::vector<Stack> stacks_;                       // free ones
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace agent
