// TaskGroup: the owner of coroutines that run beside each other. Nothing is detached: each spawned
// task is a child of a group, which cancels and joins its children. Declare it as the last member
// of its owner. Loop thread only.
#pragma once

#include <list>

#include "net/event_loop.h"
#include "net/task.h"

namespace net {

class TaskGroup {
 public:
  // With a parent, the group is cancelled when the parent is.
  explicit TaskGroup(EventLoop& loop, Cancellation* parent = nullptr);
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  // Aborts when a child still runs: its owner forgot to join.
  ~TaskGroup();

  // Starts the task at once, up to its first wait. Give it values: what it refers to must outlive
  // the group. An exception that leaves it is a bug and ends the program.
  void spawn(Task<void> task);
  void cancel() { cancellation_.request(); }
  [[nodiscard]] Cancellation& cancellation() { return cancellation_; }
  [[nodiscard]] size_t size() const { return children_.size(); }

  // co_await group.join(): when the last child has ended. One joiner at a time.
  struct JoinAwaiter {
    TaskGroup& group;
    bool await_ready() const noexcept { return group.children_.empty(); }
    void await_suspend(std::coroutine_handle<> handle) noexcept { group.joiner_ = handle; }
    void await_resume() const noexcept {}
  };
  JoinAwaiter join() { return JoinAwaiter{*this}; }

 private:
  struct Child;
  using Children = std::list<Child>;
  struct Child {
    std::coroutine_handle<> wrapper;
  };
  struct Wrapper {
    struct promise_type {
      Cancellation* cancellation = nullptr;
      Wrapper get_return_object() {
        return {std::coroutine_handle<promise_type>::from_promise(*this)};
      }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() {}
      [[noreturn]] void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
  };
  Wrapper run(Task<void> task, Children::iterator self);
  void ended(Children::iterator self);

  EventLoop& loop_;
  Cancellation* parent_;
  std::optional<Cancellation::Callbacks::iterator> on_parent_;
  Cancellation cancellation_;
  Children children_;
  std::coroutine_handle<> joiner_;
};

// Level-triggered: wait() returns once notify() was called since the last wait() began to look.
// The classic use: change state, notify; the waiter loops `while (!state) co_await event.wait()`.
class Event {
 public:
  explicit Event(EventLoop& loop) : loop_(loop) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Wakes all present waiters.
  void notify();
  // notified -> ready; deadline or cancelled otherwise.
  Task<EventLoop::Wake> wait(Deadline deadline);

 private:
  struct Waiter;
  EventLoop& loop_;
  std::list<Waiter*> waiters_;
};

}  // namespace net
