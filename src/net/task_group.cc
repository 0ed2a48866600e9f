#include "net/task_group.h"

#include <cstdlib>

namespace net {

TaskGroup::TaskGroup(EventLoop& loop, Cancellation* parent) : loop_(loop), parent_(parent) {
  if (parent_ == nullptr) {
    return;
  }
  if (parent_->requested()) {
    cancellation_.request();
    return;
  }
  on_parent_ = parent_->add([this] {
    on_parent_.reset();
    cancellation_.request();
  });
}

TaskGroup::~TaskGroup() {
  if (!children_.empty()) {
    std::abort();
  }
  if (on_parent_) {
    parent_->remove(*on_parent_);
  }
}

TaskGroup::Wrapper TaskGroup::run(Task<void> task, Children::iterator self) {
  {
    // The task ends (its frame is destroyed) before the group hears of it.
    Task<void> owned = std::move(task);
    co_await std::move(owned);
  }
  ended(self);
}

void TaskGroup::spawn(Task<void> task) {
  const auto self = children_.insert(children_.end(), Child{});
  const Wrapper wrapper = run(std::move(task), self);
  wrapper.handle.promise().cancellation = &cancellation_;
  self->wrapper = wrapper.handle;
  wrapper.handle.resume();
}

void TaskGroup::ended(Children::iterator self) {
  children_.erase(self);
  if (children_.empty() && joiner_) {
    loop_.resume_soon(std::exchange(joiner_, nullptr));
  }
}

struct Event::Waiter {
  EventLoop& loop;
  Deadline deadline;
  std::coroutine_handle<> handle = nullptr;
  bool ended = false;
  EventLoop::Wake wake = EventLoop::Wake::ready;
  EventLoop::TimerId timer = 0;
  Cancellation* cancellation = nullptr;
  std::optional<Cancellation::Callbacks::iterator> on_cancel;

  bool await_ready() const noexcept { return false; }
  template <typename P>
  bool await_suspend(std::coroutine_handle<P> parent) {
    handle = parent;
    cancellation = parent.promise().cancellation;
    if (cancellation != nullptr && cancellation->requested()) {
      wake = EventLoop::Wake::cancelled;
      return false;
    }
    if (!deadline.is_never()) {
      timer = loop.add_timer(deadline.time(), [this] {
        timer = 0;
        end(EventLoop::Wake::deadline);
      });
    }
    if (cancellation != nullptr) {
      on_cancel = cancellation->add([this] {
        on_cancel.reset();
        end(EventLoop::Wake::cancelled);
      });
    }
    return true;
  }
  EventLoop::Wake await_resume() const noexcept { return wake; }

  void end(EventLoop::Wake why) {
    if (ended) {
      return;
    }
    ended = true;
    wake = why;
    if (timer != 0) {
      loop.remove_timer(timer);
    }
    if (on_cancel) {
      cancellation->remove(*on_cancel);
      on_cancel.reset();
    }
    loop.resume_soon(handle);
  }
};

void Event::notify() {
  for (Waiter* waiter : waiters_) {
    waiter->end(EventLoop::Wake::ready);
  }
  waiters_.clear();
}

Task<EventLoop::Wake> Event::wait(Deadline deadline) {
  Waiter waiter{.loop = loop_, .deadline = deadline};
  waiters_.push_back(&waiter);
  const EventLoop::Wake wake = co_await waiter;
  std::erase(waiters_, &waiter);
  co_return wake;
}

}  // namespace net
