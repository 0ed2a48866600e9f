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

TEST(Rfc3339, is_read_with_any_offset_and_fraction) {
  constexpr int64_t kTime = 1'709'210'096'000;
  for (const std::string_view text :
       {"2024-02-29T12:34:56Z", "2024-02-29t12:34:56z", "2024-02-29 12:34:56",
        "2024-02-29T12:34:56", "2024-02-29T12:34:56.000000+00:00", "2024-02-29T14:34:56+02:00",
        "2024-02-28T23:04:56-13:30", "2024-02-29T12:34:56.0009999Z"}) {
    const auto time = parse_rfc3339(text);
    ASSERT_TRUE(time.has_value()) << text;
    EXPECT_EQ(to_ms(*time), kTime) << text;
  }
  EXPECT_EQ(to_ms(*parse_rfc3339("2024-02-29T12:34:56.7Z")), kTime + 700);
  EXPECT_EQ(to_ms(*parse_rfc3339("2024-02-29T12:34:56.123456+00:00")), kTime + 123);
  EXPECT_EQ(to_ms(*parse_rfc3339("9999-12-31T23:59:59.999Z")), 253'402'300'799'999);
}

TEST(Rfc3339, what_is_no_time_is_refused) {
  for (const std::string_view text :
       {"", "2024", "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z",
        "2024-00-01T00:00:00Z", "2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:61Z", "2024-01-01T00:00:00.Z", "2024-01-01T00:00:00+0000",
        "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00Zx", "2024-01-01T00:00:00+00:00x",
        "1969-12-31T23:59:59Z", "+024-01-01T00:00:00Z", "2024-01-01T 1:00:00Z", "now"}) {
    EXPECT_FALSE(parse_rfc3339(text).has_value()) << text;
  }
}

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
