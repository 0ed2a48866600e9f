// Reaps every child of the agent: commands it started, and as PID 1 (or a subreaper) whatever was
// orphaned in the sandbox. Owned by the agent; loop thread only. A pid in the table is not reaped
// before its callback ran, so it can be signalled without a race.
#pragma once

#include <sys/types.h>

#include <functional>
#include <unordered_map>

#include "base/fd.h"
#include "net/event_loop.h"

namespace agent {

class Reaper {
 public:
  // Blocks SIGCHLD for the process and reads it from a descriptor; aborts if that fails.
  explicit Reaper(net::EventLoop& loop);
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // Calls `callback` once with the wait status when that child has ended.
  void expect(pid_t pid, std::function<void(int status)> callback);
  // Called after orphans were reaped.
  void on_orphans(std::function<void()> callback) { on_orphans_ = std::move(callback); }

 private:
  void watch();
  void reap();

  net::EventLoop& loop_;
  base::Fd signals_;
  std::unordered_map<pid_t, std::function<void(int)>> expected_;
  std::function<void()> on_orphans_;
};

}  // namespace agent
