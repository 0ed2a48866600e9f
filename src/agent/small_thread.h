// A thread of its own beside the loop's, with a small stack, started when there is first something
// for it. A sandbox may have no process left for one: whoever wants it then does the work itself,
// and it is not tried again. The owner tells it to end, then joins it.
#pragma once

#include <pthread.h>

namespace agent {

class SmallThread {
 public:
  SmallThread() = default;
  SmallThread(const SmallThread&) = delete;
  SmallThread& operator=(const SmallThread&) = delete;

  // Runs `Work` of `owner` at the first call; whether the thread is there.
  template <auto Work, typename Owner>
  bool start(Owner& owner) {
    return start(
        [](void* self) -> void* {
          (static_cast<Owner*>(self)->*Work)();
          return nullptr;
        },
        &owner);
  }
  [[nodiscard]] bool started() const { return started_; }
  // Until its work has returned.
  void join();

 private:
  bool start(void* (*run)(void*), void* owner);

  pthread_t thread_{};
  bool started_ = false;
  bool may_start_ = true;
};

}  // namespace agent
