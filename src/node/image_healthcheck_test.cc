#include "node/image_healthcheck.h"

#include <gtest/gtest.h>

namespace node {
namespace {

using Words = std::vector<std::string>;

TEST(ImageHealthcheck, is_read_with_its_defaults) {
  const auto check = image_healthcheck(
      R"({"healthcheck":{"Test":["CMD","/check","-q"],"Interval":2000000000,"Retries":5}})");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->argv, (Words{"/check", "-q"}));
  EXPECT_EQ(check->interval_ms, 2000);
  EXPECT_EQ(check->timeout_ms, 30'000);
  EXPECT_EQ(check->retries, 5);
  const auto shell = image_healthcheck(R"({"healthcheck":{"Test":["CMD-SHELL","test -e /x"]}})");
  EXPECT_EQ(shell->argv, (Words{"/bin/sh", "-c", "test -e /x"}));
}

TEST(ImageHealthcheck, that_cannot_be_run_is_none_and_numbers_keep_their_bounds) {
  for (const char* text :
       {"{}", "no json", R"({"healthcheck":{"Test":["NONE"]}})", R"({"healthcheck":{"Test":[]}})",
        R"({"healthcheck":{"Test":["CMD"]}})", R"({"healthcheck":{"Test":["x"]}})",
        R"({"healthcheck":{"Test":"CMD"}})", R"({"healthcheck":[]})"}) {
    EXPECT_FALSE(image_healthcheck(text)) << text;
  }
  const auto check = image_healthcheck(
      R"({"healthcheck":{"Test":["CMD","x"],"Interval":-1,"Retries":9223372036854775807,)"
      R"("Timeout":9223372036854775807}})");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->interval_ms, 30'000);
  EXPECT_EQ(check->retries, 10'000);
  EXPECT_EQ(check->timeout_ms, 604'800'000);
}

}  // namespace
}  // namespace node
