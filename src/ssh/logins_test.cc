#include "ssh/logins.h"

#include <gtest/gtest.h>

namespace ssh {
namespace {

using base::Milliseconds;

const Options kOptions{
    .listen = {}, .gateway_socket = {}, .logins_max = 4, .logins_per_address_max = 2};

TEST(Logins, let_the_oldest_of_a_crowded_address_go) {
  Logins logins(kOptions);
  EXPECT_EQ(logins.begin(1, "a"), std::nullopt);
  EXPECT_EQ(logins.begin(2, "b"), std::nullopt);
  EXPECT_EQ(logins.begin(3, "a"), std::nullopt);
  EXPECT_EQ(logins.begin(4, "a"), 1U);
  EXPECT_EQ(logins.under_way(), 3U);
}

TEST(Logins, let_the_oldest_of_all_go_where_there_are_too_many) {
  Logins logins(kOptions);
  logins.begin(1, "a");
  logins.begin(2, "b");
  logins.begin(3, "c");
  logins.begin(4, "d");
  EXPECT_EQ(logins.begin(5, "e"), 1U);
  EXPECT_EQ(logins.under_way(), 4U);
}

TEST(Logins, do_not_count_who_has_signed_in) {
  Logins logins(kOptions);
  logins.begin(1, "a");
  logins.begin(2, "a");
  logins.end(1);
  logins.end(1);
  EXPECT_EQ(logins.begin(3, "a"), std::nullopt);
}

TEST(Logins, make_an_address_wait_ever_longer_after_refusals) {
  Logins logins(kOptions);
  const base::SteadyTime now = std::chrono::steady_clock::now();
  for (int i = 0; i < Logins::kRefusalsFree; ++i) {
    logins.note_refusal("a", now);
  }
  EXPECT_EQ(logins.wait_of("a", now), Milliseconds(0));
  logins.note_refusal("a", now);
  EXPECT_EQ(logins.wait_of("a", now), Milliseconds(1000));
  logins.note_refusal("a", now);
  EXPECT_EQ(logins.wait_of("a", now), Milliseconds(2000));
  for (int i = 0; i < 20; ++i) {
    logins.note_refusal("a", now);
  }
  EXPECT_EQ(logins.wait_of("a", now), Logins::kWaitMax);
  EXPECT_EQ(logins.wait_of("b", now), Milliseconds(0));
}

TEST(Logins, forget_refusals_in_time_and_after_a_success) {
  Logins logins(kOptions);
  const base::SteadyTime now = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    logins.note_refusal("a", now);
    logins.note_refusal("b", now);
  }
  EXPECT_EQ(logins.wait_of("a", now + Logins::kForgetAfter + Milliseconds(1)), Milliseconds(0));
  logins.note_success("b");
  EXPECT_EQ(logins.wait_of("b", now), Milliseconds(0));
}

}  // namespace
}  // namespace ssh
