// Task<T>: a lazy coroutine. It runs when awaited, on the thread of the event loop, and is
// destroyed by whoever awaits it. Every task knows the Cancellation of the TaskGroup it runs
// under (handed down at co_await), which is how a wait ends early.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <list>
#include <optional>
#include <utility>

#include "base/error.h"

namespace net {

using base::Error;
using base::ErrorCode;
using base::Result;

// Whether the work under a TaskGroup is given up, and who is to be told. Loop thread only.
class Cancellation {
 public:
  using Callbacks = std::list<std::function<void()>>;

  [[nodiscard]] bool requested() const { return requested_; }
  // Calls each registered callback once; they may register and remove others.
  void request() {
    requested_ = true;
    while (!callbacks_.empty()) {
      const auto callback = std::move(callbacks_.front());
      callbacks_.pop_front();
      callback();
    }
  }
  // The callback must not be removed after it has been called.
  Callbacks::iterator add(std::function<void()> callback) {
    return callbacks_.insert(callbacks_.end(), std::move(callback));
  }
  void remove(Callbacks::iterator position) { callbacks_.erase(position); }

 private:
  bool requested_ = false;
  Callbacks callbacks_;
};

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  Cancellation* cancellation = nullptr;
  std::exception_ptr exception;

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <typename P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> handle) const noexcept {
      return handle.promise().continuation;
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() { exception = std::current_exception(); }
};

template <typename T>
struct ResultPromise : PromiseBase {
  std::optional<T> value;
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() { return std::move(*value); }
};
template <>
struct ResultPromise<void> : PromiseBase {
  void return_void() {}
  void take() {}
};

template <typename T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type : ResultPromise<T> {
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&&) = delete;
  Task(const Task&) = delete;
  ~Task() {
    if (handle_) {
      handle_.destroy();
    }
  }

  struct Awaiter {
    std::coroutine_handle<promise_type> handle;
    bool await_ready() const noexcept { return false; }
    template <typename P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> parent) noexcept {
      handle.promise().continuation = parent;
      handle.promise().cancellation = parent.promise().cancellation;
      return handle;
    }
    T await_resume() {
      if (handle.promise().exception) {
        std::rethrow_exception(handle.promise().exception);
      }
      return handle.promise().take();
    }
  };
  Awaiter operator co_await() && noexcept { return Awaiter{handle_}; }

 private:
  friend class TaskGroup;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// The Cancellation this coroutine runs under: `const auto* c = co_await current_cancellation();`
struct current_cancellation {
  Cancellation* found = nullptr;
  bool await_ready() const noexcept { return false; }
  template <typename P>
  bool await_suspend(std::coroutine_handle<P> handle) noexcept {
    found = handle.promise().cancellation;
    return false;
  }
  Cancellation* await_resume() const noexcept { return found; }
};

}  // namespace net
