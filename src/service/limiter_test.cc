#include "service/limiter.h"

#include <gtest/gtest.h>

namespace service {
namespace {

using namespace std::chrono_literals;
using base::ErrorCode;
using Kind = Limiter::Kind;

const Caller kAnn{.team = "default", .subject = "ann", .token_id = "tok-a"};
const Caller kBob{.team = "default", .subject = "bob", .token_id = "tok-b"};

std::string retry_after(const base::Error& error) { return error.details.at(0).second; }

TEST(Limiter, nothing_is_limited_where_no_limit_is_set) {
  base::FakeClock clock;
  Limiter limiter(clock, {});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(limiter.take(kAnn)->limit, 0);
  }
  std::vector<Limiter::Held> held;
  held.reserve(100);
  for (int i = 0; i < 100; ++i) {
    held.push_back(std::move(*limiter.hold(kAnn, Kind::creates)));
  }
  EXPECT_EQ(limiter.body_bytes_max(kAnn), 0);
}

TEST(Limiter, a_burst_is_let_through_and_then_the_rate) {
  base::FakeClock clock;
  Limiter limiter(clock, {.requests_per_sec = 10, .burst = 20});
  for (int i = 0; i < 20; ++i) {
    const auto left = limiter.take(kAnn);
    ASSERT_TRUE(left.has_value()) << i;
    EXPECT_EQ(left->remaining, 19 - i);
  }
  const auto refused = limiter.take(kAnn);
  EXPECT_EQ(refused.error().code, ErrorCode::rate_limited);
  EXPECT_EQ(retry_after(refused.error()), "1");
  EXPECT_TRUE(limiter.take(kBob).has_value()) << "another token has its own bucket";
  clock.advance(500ms);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(limiter.take(kAnn).has_value());
  }
  EXPECT_FALSE(limiter.take(kAnn).has_value());
  clock.advance(1h);
  EXPECT_EQ(limiter.take(kAnn)->remaining, 19) << "a bucket holds no more than its burst";
  EXPECT_EQ(limiter.refused(Kind::rate), 2U);
}

TEST(Limiter, a_slow_rate_says_how_long_to_wait) {
  base::FakeClock clock;
  Limiter limiter(clock, {.requests_per_sec = 1});
  EXPECT_TRUE(limiter.take(kAnn).has_value());
  EXPECT_EQ(retry_after(limiter.take(kAnn).error()), "1");
}

TEST(Limiter, what_is_held_is_given_back_once) {
  base::FakeClock clock;
  Limiter limiter(clock, {.creates = 2, .streams = 1});
  {
    auto first = limiter.hold(kAnn, Kind::creates);
    auto second = limiter.hold(kAnn, Kind::creates);
    const Limiter::Held moved = std::move(*first);
    EXPECT_EQ(limiter.hold(kAnn, Kind::creates).error().code, ErrorCode::rate_limited);
    EXPECT_TRUE(limiter.hold(kAnn, Kind::streams).has_value());
    EXPECT_TRUE(limiter.hold(kBob, Kind::creates).has_value());
  }
  auto first = limiter.hold(kAnn, Kind::creates);
  auto second = limiter.hold(kAnn, Kind::creates);
  EXPECT_TRUE(first.has_value() && second.has_value());
  EXPECT_FALSE(limiter.hold(kAnn, Kind::creates).has_value());
}

TEST(Limiter, limits_of_one_token_hold_at_once_and_for_it_only) {
  base::FakeClock clock;
  Limiter limiter(clock, {.requests_per_sec = 100, .streams = 5, .body_bytes = 7});
  ASSERT_TRUE(limiter.take(kAnn).has_value());
  limiter.set("tok-a", TokenLimits{.requests_per_sec = 2, .body_mb = 1});
  EXPECT_EQ(limiter.take(kAnn)->remaining, 1);
  EXPECT_TRUE(limiter.take(kAnn).has_value());
  EXPECT_FALSE(limiter.take(kAnn).has_value());
  EXPECT_EQ(limiter.body_bytes_max(kAnn), 1024 * 1024);
  EXPECT_EQ(limiter.limits_of("tok-a").streams, 5);
  EXPECT_EQ(limiter.limits_of("tok-b").requests_per_sec, 100);
  limiter.set("tok-a", TokenLimits{.requests_per_sec = 0});
  EXPECT_EQ(limiter.take(kAnn)->limit, 0);
  limiter.set("tok-a", std::nullopt);
  EXPECT_EQ(limiter.take(kAnn)->limit, 100);
}

TEST(Limiter, many_tokens_are_forgotten_and_those_in_use_are_not) {
  base::FakeClock clock;
  Limiter limiter(clock, {.requests_per_sec = 1, .streams = 1});
  const auto held = limiter.hold(kAnn, Kind::streams);
  for (size_t i = 0; i < 3 * Limiter::kTokensMax; ++i) {
    ASSERT_TRUE(limiter.take({.subject = "x", .token_id = base::cat("tok-", i)}));
    clock.advance(2ms);
  }
  EXPECT_FALSE(limiter.hold(kAnn, Kind::streams).has_value());
}

}  // namespace
}  // namespace service
