#include "agent/log_pace.h"

#include <gtest/gtest.h>

namespace agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kCapacity = 1000;
const base::SteadyTime kStart{std::chrono::hours(1)};
// When a follower that keeps up has had its time.
const base::SteadyTime kLater = kStart + milliseconds(100);

TEST(LogPace, without_a_follower_nothing_holds) {
  LogPace pace;
  EXPECT_EQ(pace.ask(1'000'000, kCapacity, kStart).bytes_max, UINT64_MAX);
}

TEST(LogPace, the_fastest_follower_holds_three_quarters_of_the_ring_behind) {
  LogPace pace;
  const auto fast = pace.join(0, kStart);
  pace.join(0, kStart);  // takes nothing
  EXPECT_EQ(pace.ask(0, kCapacity, kStart).bytes_max, 750U);
  EXPECT_EQ(pace.ask(700, kCapacity, kStart).bytes_max, 0U);  // time to catch up
  EXPECT_EQ(pace.ask(700, kCapacity, kLater).bytes_max, 50U);
  EXPECT_EQ(pace.ask(750, kCapacity, kLater).bytes_max, 0U);
  EXPECT_GT(pace.ask(750, kCapacity, kLater).ask_again, kLater);
  pace.moved(fast, 400, kLater);
  EXPECT_EQ(pace.ask(750, kCapacity, kLater).bytes_max, 400U);
  pace.moved(fast, 750, kLater);
  EXPECT_EQ(pace.ask(750, kCapacity, kLater).bytes_max, 750U);
}

TEST(LogPace, a_follower_at_a_standstill_holds_no_longer) {
  LogPace pace;
  const auto follower = pace.join(0, kStart);
  EXPECT_EQ(pace.ask(750, kCapacity, kStart).bytes_max, 0U);
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(9)).bytes_max, 0U);
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(10)).bytes_max, UINT64_MAX);
  pace.moved(follower, 100, kStart + seconds(20));
  EXPECT_EQ(pace.ask(850, kCapacity, kStart + seconds(21)).bytes_max, 0U);
}

TEST(LogPace, a_sign_of_life_is_waited_for_as_progress_is) {
  LogPace pace;
  const auto follower = pace.join(0, kStart);
  for (const int now : {9, 18, 27}) {
    EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(now)).bytes_max, 0U);
    pace.alive(follower, kStart + seconds(now));
  }
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(37)).bytes_max, UINT64_MAX);
}

TEST(LogPace, a_follower_that_had_nothing_to_take_is_no_standstill) {
  LogPace pace;
  pace.join(0, kStart);
  EXPECT_EQ(pace.ask(0, kCapacity, kStart).bytes_max, 750U);
  EXPECT_EQ(pace.ask(0, kCapacity, kStart + seconds(60)).bytes_max, 750U);
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(61)).bytes_max, 0U);
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(70)).bytes_max, 0U);
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(71)).bytes_max, UINT64_MAX);
}

TEST(LogPace, one_that_left_is_waited_for_a_while) {
  LogPace pace;
  pace.leave(pace.join(100, kStart), kStart);
  EXPECT_FALSE(pace.followed());
  EXPECT_EQ(pace.ask(850, kCapacity, kStart).bytes_max, 0U);
  EXPECT_EQ(pace.ask(850, kCapacity, kStart + seconds(5)).bytes_max, UINT64_MAX);
  // Any number of them costs no memory.
  for (int i = 0; i < 1000; ++i) {
    pace.leave(pace.join(0, kStart), kStart);
  }
  EXPECT_EQ(pace.ask(750, kCapacity, kStart).bytes_max, 0U);
}

TEST(LogPace, one_that_is_expected_is_waited_for_longer) {
  LogPace pace;
  pace.expect(kStart);
  EXPECT_FALSE(pace.followed());
  EXPECT_EQ(pace.ask(0, kCapacity, kStart).bytes_max, 750U);
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(29)).bytes_max, 0U);
  // Who has come and keeps up decides.
  const auto follower = pace.join(0, kStart + seconds(29));
  pace.moved(follower, 750, kStart + seconds(29));
  EXPECT_EQ(pace.ask(750, kCapacity, kStart + seconds(29)).bytes_max, 750U);
  LogPace forsaken;
  forsaken.expect(kStart);
  EXPECT_EQ(forsaken.ask(750, kCapacity, kStart + seconds(30)).bytes_max, UINT64_MAX);
}

}  // namespace
}  // namespace agent
