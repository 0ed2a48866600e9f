#include "agent/uncancelled.h"

namespace agent {

net::Task<void> run_uncancelled(net::EventLoop& loop, std::function<void()> leave,
                                std::vector<net::Task<void>> tasks) {
  net::Cancellation* outer = co_await net::current_cancellation();
  net::TaskGroup group(loop);
  for (net::Task<void>& task : tasks) {
    group.spawn(std::move(task));
  }
  std::optional<net::Cancellation::Callbacks::iterator> on_cancel;
  if (outer != nullptr && outer->requested()) {
    leave();
  } else if (outer != nullptr) {
    on_cancel = outer->add([&leave, &on_cancel] {
      on_cancel.reset();
      leave();
    });
  }
  co_await group.join();
  if (on_cancel) {
    outer->remove(*on_cancel);
  }
}

}  // namespace agent
