#include "agent/side_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

namespace agent {
namespace {

class Collector {
 public:
  static constexpr uint32_t kMax = 3;

  // Whether there was room for it.
  bool add(int value, bool wake = true) {
    EXPECT_TRUE(queue_.start<&Collector::work>(*this));
    if (queue_.count() == kMax) {
      return false;
    }
    added_ = queue_.add(std::make_unique<int>(value));
    if (wake) {
      queue_.wake();
    }
    return true;
  }
  SideQueue<std::unique_ptr<int>, kMax>& queue() { return queue_; }
  [[nodiscard]] const std::vector<int>& taken() const { return taken_; }
  [[nodiscard]] uint32_t added() const { return added_; }
  std::vector<int>* end = nullptr;  // gets what was taken, also while the queue ends

 private:
  void work() {
    queue_.work([this](const std::unique_ptr<int>& item) {
      taken_.push_back(*item);
      if (end != nullptr) {
        *end = taken_;
      }
    });
  }

  uint32_t added_ = 0;
  std::vector<int> taken_;
  SideQueue<std::unique_ptr<int>, kMax> queue_;
};

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(SideQueue, takes_items_in_their_order) {
  Collector collector;
  EXPECT_FALSE(collector.queue().started());
  for (int value = 0; value < 10'000; ++value) {
    collector.queue().wait_for_count(Collector::kMax - 1);
    ASSERT_TRUE(collector.add(value));
  }
  collector.queue().wait_for_count(0);
  EXPECT_EQ(collector.taken(), numbers(10'000));
  EXPECT_EQ(collector.added(), 10'000U);
}

TEST(SideQueue, counts_what_is_with_the_thread) {
  Collector collector;
  int taken = 0;
  while (taken < 10'000) {
    taken += collector.add(taken) ? 1 : 0;
    ASSERT_LE(collector.queue().count(), Collector::kMax);
  }
  collector.queue().wait_for_count(0);
  EXPECT_EQ(collector.queue().count(), 0U);
  EXPECT_EQ(collector.taken(), numbers(10'000));
}

TEST(SideQueue, takes_what_is_left_when_it_ends) {
  for (int round = 0; round < 2'000; ++round) {
    const int count = round % 4;
    std::vector<int> taken;
    {
      Collector collector;
      collector.end = &taken;
      for (int value = 0; value < count; ++value) {
        ASSERT_TRUE(collector.add(value, round % 2 == 0));
      }
    }
    ASSERT_EQ(taken, numbers(count)) << round;
  }
}

TEST(SideQueue, ends_where_nothing_was_started) {
  SideQueue<int, 2> queue;
  EXPECT_EQ(queue.count(), 0U);
  queue.wait_for_count(0);
}

}  // namespace
}  // namespace agent
