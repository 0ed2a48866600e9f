#include "base/clock.h"

#include <gtest/gtest.h>

namespace base {
namespace {

TEST(Rfc3339, is_utc_with_milliseconds) {
  EXPECT_EQ(rfc3339(from_ms(0)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(from_ms(1'709'210'096'007)), "2024-02-29T12:34:56.007Z");
  EXPECT_EQ(rfc3339(from_ms(253'402'300'799'999)), "9999-12-31T23:59:59.999Z");
}

TEST(Rfc3339, works_before_1970) { EXPECT_EQ(rfc3339(from_ms(-1)), "1969-12-31T23:59:59.999Z"); }

TEST(FakeClock, moves_both_times_only_when_told) {
  FakeClock clock;
  const auto wall = clock.wall();
  const auto steady = clock.steady();
  EXPECT_EQ(clock.wall(), wall);
  clock.advance(Milliseconds(1500));
  EXPECT_EQ(clock.wall() - wall, Milliseconds(1500));
  EXPECT_EQ(clock.steady() - steady, Milliseconds(1500));
}

TEST(ToMs, is_undone_by_from_ms) { EXPECT_EQ(to_ms(from_ms(1'234'567)), 1'234'567); }

}  // namespace
}  // namespace base
