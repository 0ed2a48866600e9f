// The places that are ready ahead of the sandboxes they are for. Owned by the node, loop thread
// only. Refills itself from the loop, one place a turn and only when no sandbox has been asked for
// a moment and no one waits for a CPU, so that making places keeps creates and first commands
// waiting as little as possible. At most `wanted` places; one that cannot be made is logged and
// tried again later.
#pragma once

#include <deque>
#include <memory>

#include "base/log.h"
#include "net/event_loop.h"
#include "node/place.h"

namespace node {

class ShellPool {
 public:
  ShellPool(net::EventLoop& loop, Places& places, base::Log& log, size_t wanted);
  ShellPool(const ShellPool&) = delete;
  ShellPool& operator=(const ShellPool&) = delete;
  ~ShellPool();  // gives the places back

  // A ready place, or one made now.
  base::Result<std::unique_ptr<Place>> take();
  [[nodiscard]] size_t ready() const { return ready_.size(); }

 private:
  [[nodiscard]] bool is_low() const;
  [[nodiscard]] base::Milliseconds quiet() const;
  void count_lacking();
  void schedule(base::SteadyTime when);
  void refill();

  net::EventLoop& loop_;
  Places& places_;
  base::Log& log_;
  size_t wanted_;
  std::deque<std::unique_ptr<Place>> ready_;
  base::SteadyTime last_taken_;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace node
