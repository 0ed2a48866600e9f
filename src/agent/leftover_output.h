// Output pipes that background children still hold after their command's call has ended: read and
// forgotten, so that a server that outlives its command is neither stopped by a full pipe nor
// killed by SIGPIPE. Owned by the agent; loop thread only; one descriptor each, no memory.
#pragma once

#include <unordered_map>

#include "base/fd.h"
#include "net/event_loop.h"

namespace agent {

class LeftoverOutput {
 public:
  // `null_device` is not owned.
  LeftoverOutput(net::EventLoop& loop, int null_device) : loop_(loop), null_device_(null_device) {}
  ~LeftoverOutput();
  LeftoverOutput(const LeftoverOutput&) = delete;
  LeftoverOutput& operator=(const LeftoverOutput&) = delete;

  void take(base::Fd pipe);
  [[nodiscard]] size_t size() const { return pipes_.size(); }

 private:
  void discard(int number);

  net::EventLoop& loop_;
  int null_device_;
  std::unordered_map<int, base::Fd> pipes_;
};

}  // namespace agent
