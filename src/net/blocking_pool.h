// BlockingPool: threads for work that blocks (SQLite, whole-file system calls). Owned by main and
// used from the loop thread; a job runs on one of the pool's threads and the coroutine that asked
// goes on on the loop thread. A job is never given up midway: a cancelled caller still waits for
// it (jobs are short). With one thread jobs run in the order they were given, back to back, so
// what they use needs no lock. The queue is bounded by the callers: each waits for its own job.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "net/event_loop.h"
#include "net/task.h"

namespace net {

class BlockingPool {
 public:
  BlockingPool(EventLoop& loop, size_t threads);
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  // Runs what is queued, then joins the threads. Coroutines that wait are resumed by the loop, so
  // their TaskGroups are joined before the pool goes.
  ~BlockingPool();

  // `auto find = [this, id] { return rows_.find(id); };`
  // `const auto row = co_await pool.run(std::move(find));`
  // `work` is called once, on a pool thread; an exception of it is rethrown here.
  template <typename Work>
  Task<std::invoke_result_t<Work&>> run(Work work) {
    Call<Work> call(std::move(work));
    const auto began = std::chrono::steady_clock::now();
    const auto times = times_;  // the pool may be gone when the loop goes on here
    co_await JobAwaiter{*this, call};
    times->observe(std::chrono::steady_clock::now() - began);
    if (call.exception) {
      std::rethrow_exception(call.exception);
    }
    if constexpr (!std::is_void_v<std::invoke_result_t<Work&>>) {
      co_return std::move(*call.value);
    }
  }

  // How long callers waited for their jobs. Loop thread only.
  [[nodiscard]] const base::Histogram& times() const { return *times_; }

 private:
  struct Job {
    virtual ~Job() = default;
    virtual void execute() noexcept = 0;
    std::coroutine_handle<> waiting;
    std::exception_ptr exception;
  };
  template <typename Work>
  struct Call final : Job {
    using Value = std::invoke_result_t<Work&>;
    using Kept = std::conditional_t<std::is_void_v<Value>, std::nullptr_t, Value>;

    explicit Call(Work given) : work(std::move(given)) {}
    void execute() noexcept override {
      try {
        if constexpr (std::is_void_v<Value>) {
          work();
        } else {
          value.emplace(work());
        }
      } catch (...) {
        this->exception = std::current_exception();
      }
    }
    Work work;
    std::optional<Kept> value;
  };
  struct JobAwaiter {
    BlockingPool& pool;
    Job& job;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
      job.waiting = handle;
      pool.submit(job);
    }
    void await_resume() const noexcept {}
  };

  void submit(Job& job);
  void work_off();

  EventLoop& loop_;
  std::shared_ptr<base::Histogram> times_ = std::make_shared<base::Histogram>();
  std::mutex mutex_;  // guards jobs_, closing_
  std::condition_variable wake_;
  std::deque<Job*> jobs_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace net
