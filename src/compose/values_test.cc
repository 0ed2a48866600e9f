#include "compose/values.h"

#include <gtest/gtest.h>

namespace compose {
namespace {

using Words = std::vector<std::string>;
using wire::json::Value;

TEST(Values, words_are_split_as_a_shell_splits_them) {
  EXPECT_EQ(read_words("sh -c 'echo a; sleep 1'", "f"), (Words{"sh", "-c", "echo a; sleep 1"}));
  EXPECT_EQ(read_words(R"(a "b \"c\" \d" e\ f '')", "f"), (Words{"a", R"(b "c" \d)", "e f", ""}));
  EXPECT_EQ(read_words("", "f"), Words{});
  EXPECT_EQ(read_words("  x\n y\t", "f"), (Words{"x", "y"}));
  EXPECT_FALSE(read_words("a 'b", "f"));
}

TEST(Values, durations) {
  EXPECT_EQ(read_duration_ms("1m30s", "f"), 90'000);
  EXPECT_EQ(read_duration_ms("500ms", "f"), 500);
  EXPECT_EQ(read_duration_ms("1h", "f"), 3'600'000);
  EXPECT_EQ(read_duration_ms("0.5s", "f"), 500);
  EXPECT_EQ(read_duration_ms("100us", "f"), 1);
  EXPECT_EQ(read_duration_ms("0", "f"), 0);
  for (const char* text : {"", "5", "s", "1x", "-1s", "1s2", "999999h", "1e9s"}) {
    EXPECT_FALSE(read_duration_ms(text, "f")) << text;
  }
}

TEST(Values, sizes_and_cpus) {
  EXPECT_EQ(read_bytes("512m", "f"), 512 << 20);
  EXPECT_EQ(read_bytes("1.5GB", "f"), int64_t{1536} << 20);
  EXPECT_EQ(read_bytes(1024, "f"), 1024);
  EXPECT_EQ(read_millicpus("0.5", "f"), 500);
  EXPECT_EQ(read_millicpus(2, "f"), 2000);
  EXPECT_EQ(read_millicpus(0.25, "f"), 250);
  for (const char* text : {"", "x", "1x", "-1m", "1 2"}) {
    EXPECT_FALSE(read_bytes(text, "f")) << text;
    EXPECT_FALSE(read_millicpus(text, "f")) << text;
  }
}

}  // namespace
}  // namespace compose
