// Gives memory back while nothing happens: idle sandboxes are many. Two seconds after the last
// request the heap's free pages go, and the pages of the program's own code, which are read back
// from the page cache when they are needed again. Owned by the agent; loop thread only.
#pragma once

#include "net/event_loop.h"

namespace agent {

class IdleMemory {
 public:
  explicit IdleMemory(net::EventLoop& loop) : loop_(loop) { note_activity(); }
  ~IdleMemory();
  IdleMemory(const IdleMemory&) = delete;
  IdleMemory& operator=(const IdleMemory&) = delete;

  // Called at the end of each request.
  void note_activity();

 private:
  void look();

  net::EventLoop& loop_;
  base::SteadyTime last_activity_;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace agent
