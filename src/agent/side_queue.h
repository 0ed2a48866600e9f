// Work handed from the loop's thread to a thread of its own beside it, which takes the items in
// their order. The thread starts with the first item and ends with this object, which is its
// owner's last member: until then it may use the owner's others.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "agent/small_thread.h"

namespace agent {

template <typename Item, uint32_t kMax>
class SideQueue {
 public:
  SideQueue() = default;
  SideQueue(const SideQueue&) = delete;
  SideQueue& operator=(const SideQueue&) = delete;
  // Waits until the thread has taken what is left.
  ~SideQueue() {
    if (thread_.started()) {
      end_ = added_.load(std::memory_order_relaxed);
      over_.store(true, std::memory_order_release);
      added_.store(end_ + 1, std::memory_order_release);
      wake();
      thread_.join();
    }
  }

  // Runs `Work` of `owner` in the thread at the first call; whether the thread is there.
  template <auto Work, typename Owner>
  bool start(Owner& owner) {
    return thread_.start<Work>(owner);
  }
  [[nodiscard]] bool started() const { return thread_.started(); }

  // How many the thread has not taken to their end.
  [[nodiscard]] uint32_t count() const {
    return added_.load(std::memory_order_relaxed) - done_.load(std::memory_order_acquire);
  }
  // Where count() is less than kMax. The thread may sleep until it is woken. Answers how many were
  // added so far.
  uint32_t add(Item item) {
    const uint32_t added = added_.load(std::memory_order_relaxed);
    items_[added % kMax] = std::move(item);
    added_.store(added + 1, std::memory_order_release);
    return added + 1;
  }
  void wake() { added_.notify_one(); }
  // Until count() is no more than that; what the thread did to get there can be seen then.
  void wait_for_count(uint32_t count_max) const {
    const uint32_t added = added_.load(std::memory_order_relaxed);
    for (;;) {
      const uint32_t done = done_.load(std::memory_order_acquire);
      if (added - done <= count_max) {
        return;
      }
      done_.wait(done, std::memory_order_acquire);
    }
  }

  // In the thread: every item to `take`, until the queue ends.
  template <typename Take>
  void work(const Take& take) {
    for (uint32_t next = 0;; ++next) {
      added_.wait(next, std::memory_order_acquire);
      if (is_over() && next == end_) {
        return;
      }
      take(items_[next % kMax]);
      done_.store(next + 1, std::memory_order_release);
      done_.notify_one();
    }
  }
  // In the thread: the queue is ending, and takes what is left.
  [[nodiscard]] bool is_over() const { return over_.load(std::memory_order_acquire); }

 private:
  std::array<Item, kMax> items_;
  std::atomic<uint32_t> added_{0};
  std::atomic<uint32_t> done_{0};
  std::atomic<bool> over_{false};
  uint32_t end_ = 0;  // of all items, when it is over
  SmallThread thread_;
};

}  // namespace agent
