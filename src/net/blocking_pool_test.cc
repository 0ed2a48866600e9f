#include "net/blocking_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "net/task_group.h"

namespace net {
namespace {

using namespace std::chrono_literals;

void join(EventLoop& loop, TaskGroup& group) {
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

Task<void> add_up(BlockingPool& pool, int number, std::vector<int>& order, std::thread::id& loop) {
  auto work = [number] { return std::make_unique<int>(number * 2); };
  const auto doubled = co_await pool.run(std::move(work));
  EXPECT_EQ(std::this_thread::get_id(), loop);
  order.push_back(*doubled);
}

TEST(BlockingPool, jobs_of_one_thread_run_in_order_and_resume_on_the_loop) {
  EventLoop loop;
  BlockingPool pool(loop, 1);
  TaskGroup group(loop);
  std::thread::id here = std::this_thread::get_id();
  std::vector<int> order;
  std::vector<int> expected;
  for (int i = 0; i < 500; ++i) {
    group.spawn(add_up(pool, i, order, here));
    expected.push_back(i * 2);
  }
  join(loop, group);
  EXPECT_EQ(order, expected);
}

Task<void> count_up(BlockingPool& pool, int& unguarded, int times) {
  for (int i = 0; i < times; ++i) {
    auto work = [&unguarded] { ++unguarded; };
    co_await pool.run(std::move(work));
  }
}

TEST(BlockingPool, what_one_thread_uses_needs_no_lock) {
  EventLoop loop;
  BlockingPool pool(loop, 1);
  TaskGroup group(loop);
  int unguarded = 0;
  for (int i = 0; i < 8; ++i) {
    group.spawn(count_up(pool, unguarded, 200));
  }
  join(loop, group);
  EXPECT_EQ(unguarded, 1600);
}

Task<void> meet(BlockingPool& pool, std::atomic<int>& present) {
  auto work = [&present] {
    present.fetch_add(1);
    while (present.load() < 2) {
      std::this_thread::yield();
    }
  };
  co_await pool.run(std::move(work));
}

TEST(BlockingPool, several_threads_run_jobs_beside_each_other) {
  EventLoop loop;
  BlockingPool pool(loop, 2);
  TaskGroup group(loop);
  std::atomic<int> present = 0;
  group.spawn(meet(pool, present));
  group.spawn(meet(pool, present));
  join(loop, group);
  EXPECT_EQ(present.load(), 2);
}

Task<void> fail_in_job(BlockingPool& pool, bool& caught) {
  auto work = []() -> int { throw std::runtime_error("a bug"); };
  try {
    (void)co_await pool.run(std::move(work));
  } catch (const std::runtime_error&) {
    caught = true;
  }
}

TEST(BlockingPool, an_exception_of_a_job_reaches_who_asked) {
  EventLoop loop;
  BlockingPool pool(loop, 1);
  TaskGroup group(loop);
  bool caught = false;
  group.spawn(fail_in_job(pool, caught));
  join(loop, group);
  EXPECT_TRUE(caught);
}

Task<void> run_and_note(BlockingPool& pool, bool& ran, bool& resumed) {
  auto work = [&ran] { ran = true; };
  co_await pool.run(std::move(work));
  resumed = true;
}

TEST(BlockingPool, a_cancelled_group_still_waits_for_its_job) {
  EventLoop loop;
  BlockingPool pool(loop, 1);
  TaskGroup group(loop);
  bool ran = false;
  bool resumed = false;
  group.spawn(run_and_note(pool, ran, resumed));
  group.cancel();
  join(loop, group);
  EXPECT_TRUE(ran);
  EXPECT_TRUE(resumed);
}

TEST(BlockingPool, its_end_runs_what_is_queued) {
  EventLoop loop;
  TaskGroup group(loop);
  bool ran = false;
  bool resumed = false;
  {
    BlockingPool pool(loop, 1);
    group.spawn(run_and_note(pool, ran, resumed));
  }
  EXPECT_TRUE(ran);
  EXPECT_FALSE(resumed);  // by the loop only
  join(loop, group);
  EXPECT_TRUE(resumed);
}

}  // namespace
}  // namespace net
