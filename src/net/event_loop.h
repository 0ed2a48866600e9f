// One epoll loop of one thread: readiness of descriptors, timers, and work posted from elsewhere.
// The gateway, the node and the agent each have exactly one. Awaiting is bounded by a Deadline and
// ends early with `cancelled` when the task's group is cancelled.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "net/task.h"

namespace net {

// When a wait gives up. Deadline::never() only where something else bounds the wait.
class Deadline {
 public:
  static Deadline never() { return Deadline(base::SteadyTime::max()); }
  static Deadline after(base::Milliseconds time) {
    return Deadline(std::chrono::steady_clock::now() + time);
  }
  static Deadline at(base::SteadyTime time) { return Deadline(time); }
  [[nodiscard]] base::SteadyTime time() const { return time_; }
  [[nodiscard]] bool is_never() const { return time_ == base::SteadyTime::max(); }

 private:
  explicit Deadline(base::SteadyTime time) : time_(time) {}
  base::SteadyTime time_;
};

class EventLoop {
 public:
  EventLoop();  // aborts if the kernel gives no epoll instance
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Until stop(), or not at all after one; what is ready in turns, timers in order of time.
  void run();
  void stop() { stopped_ = true; }
  // One turn that waits at most `at_most`; for tests and for a program with its own loop.
  void run_once(base::Milliseconds at_most);

  // Runs `work` on the loop thread, soon. Callable from any thread.
  void post(std::function<void()> work);
  // Resumes a coroutine on the next turn (loop thread only).
  void resume_soon(std::coroutine_handle<> handle);

  using TimerId = uint64_t;
  TimerId add_timer(base::SteadyTime time, std::function<void()> callback);
  void remove_timer(TimerId id);

  enum class Direction { read, write };
  enum class Wake { ready, deadline, cancelled };
  // What epoll says of a descriptor; the callback is called once. One waiter per descriptor and
  // direction. forget() must be called before a descriptor that was ever waited for is closed.
  void watch(int fd, Direction direction, std::function<void()> callback);
  void unwatch(int fd, Direction direction);
  void forget(int fd);

  // co_await loop.wait(fd, Direction::read, deadline): ready (or hung up: the call that follows
  // tells), deadline or cancelled.
  class WaitAwaiter;
  WaitAwaiter wait(int fd, Direction direction, Deadline deadline);
  // co_await loop.sleep_until(deadline): deadline or cancelled.
  class SleepAwaiter;
  SleepAwaiter sleep_until(Deadline deadline);
  // co_await loop.yield(): goes on in the next turn, so that others get theirs between two pieces
  // of work that never has to wait.
  struct YieldAwaiter {
    EventLoop& loop;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) { loop.resume_soon(handle); }
    void await_resume() const noexcept {}
  };
  YieldAwaiter yield() { return YieldAwaiter{*this}; }

 private:
  struct Watch {
    std::function<void()> on_read;
    std::function<void()> on_write;
    uint32_t registered = 0;  // what epoll was told; 0: not there
    uint64_t generation = 0;
  };
  struct Timer {
    TimerId id;
    std::function<void()> callback;
  };
  void update(int fd, Watch& watch);
  void run_timers();
  int wait_milliseconds(base::Milliseconds at_most) const;

  base::Fd epoll_;
  base::Fd wake_;
  std::unordered_map<int, Watch> watches_;
  std::multimap<base::SteadyTime, Timer> timers_;
  std::unordered_map<TimerId, std::multimap<base::SteadyTime, Timer>::iterator> timer_index_;
  TimerId last_timer_ = 0;
  uint64_t last_generation_ = 0;
  std::vector<std::coroutine_handle<>> ready_;
  std::mutex posted_mutex_;  // guards posted_
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> stopped_ = false;
};

// Common to both awaiters: one of {event, deadline, cancellation} ends the wait, the others are
// taken back.
class EventLoop::WaitAwaiter {
 public:
  WaitAwaiter(EventLoop& loop, int fd, Direction direction, Deadline deadline)
      : loop_(loop), fd_(fd), direction_(direction), deadline_(deadline) {}
  WaitAwaiter(const WaitAwaiter&) = delete;
  ~WaitAwaiter() { take_back(); }

  bool await_ready() const noexcept { return false; }
  template <typename P>
  bool await_suspend(std::coroutine_handle<P> handle) {
    return start(handle, handle.promise().cancellation);
  }
  Wake await_resume() const noexcept { return wake_; }

 private:
  bool start(std::coroutine_handle<> handle, Cancellation* cancellation);
  void end(Wake wake);
  void take_back();

  EventLoop& loop_;
  int fd_;  // -1: only time is waited for
  Direction direction_;
  Deadline deadline_;
  Wake wake_ = Wake::ready;
  bool waiting_ = false;
  std::coroutine_handle<> handle_;
  TimerId timer_ = 0;
  Cancellation* cancellation_ = nullptr;
  std::optional<Cancellation::Callbacks::iterator> on_cancel_;
};

class EventLoop::SleepAwaiter : public WaitAwaiter {
 public:
  SleepAwaiter(EventLoop& loop, Deadline deadline)
      : WaitAwaiter(loop, -1, Direction::read, deadline) {}
};

inline EventLoop::WaitAwaiter EventLoop::wait(int fd, Direction direction, Deadline deadline) {
  return {*this, fd, direction, deadline};
}
inline EventLoop::SleepAwaiter EventLoop::sleep_until(Deadline deadline) {
  return {*this, deadline};
}

}  // namespace net
