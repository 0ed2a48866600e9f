// All that the agent's requests share, made once in main: a plain owner of the parts. Loop thread
// only; outlives every connection.
#pragma once

#include <cstddef>
#include <vector>

#include "agent/accounts.h"
#include "agent/config.h"
#include "agent/idle_memory.h"
#include "agent/leftover_output.h"
#include "agent/process_tree.h"
#include "agent/reaper.h"
#include "agent/spawn.h"
#include "agent/stream_patience.h"
#include "base/fd.h"
#include "net/event_loop.h"

namespace agent {

struct AgentOptions {
  Config config;
  base::Fd cgroup;                // fd 5, may be invalid
  base::Fd oom_counter;           // fd 6, may be invalid
  base::Fd spool_folder;          // fd 7, may be invalid
  base::Fd program;               // the agent's own binary, for the helpers
  std::vector<base::Fd> covered;  // fd 8 on: what the image has where each mount is
  StreamPatience patience;
};

class Agent {
 public:
  Agent(net::EventLoop& event_loop, AgentOptions options);

  net::EventLoop& loop;
  const Config config;
  const base::Fd oom_counter;
  const base::Fd spool_folder;
  const base::Fd program;
  const std::vector<base::Fd> covered;
  const base::Fd null_device;
  const StreamPatience patience;
  Reaper reaper;
  ProcessTrees trees;
  Accounts accounts;
  Spawner spawner;
  LeftoverOutput leftovers;
  IdleMemory idle_memory;
  Environment variables;  // of commands that have none of that name themselves (credentials.h)
  size_t running_commands = 0;
  size_t watches = 0;  // of files

  // Processes the kernel killed in this sandbox for want of memory; 0 without a counter.
  [[nodiscard]] uint64_t oom_kills() const;
};

}  // namespace agent
