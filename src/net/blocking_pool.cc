#include "net/blocking_pool.h"

namespace net {

BlockingPool::BlockingPool(EventLoop& loop, size_t threads) : loop_(loop) {
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work_off(); });
  }
}

BlockingPool::~BlockingPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void BlockingPool::submit(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
  }
  wake_.notify_one();
}

void BlockingPool::work_off() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) {
      return;
    }
    Job* const job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    job->execute();
    // The job lives in the waiting coroutine's frame: it is gone once that goes on.
    loop_.post([waiting = job->waiting] { waiting.resume(); });
    lock.lock();
  }
}

}  // namespace net
