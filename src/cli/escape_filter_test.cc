#include "cli/escape_filter.h"

#include <gtest/gtest.h>

namespace cli {
namespace {

std::string passed(std::string_view typed) {
  EscapeFilter filter;
  std::string out;
  for (const char key : typed) {  // one by one, as they are typed
    const auto got = filter.feed({&key, 1});
    out += got.bytes;
    if (got.leave) {
      return out + "<left>";
    }
  }
  const auto whole = EscapeFilter().feed(typed);
  EXPECT_EQ(out, whole.bytes) << "pasted at once it differs";
  return out;
}

TEST(EscapeFilter, leaves_at_the_start_of_a_line_only) {
  EXPECT_EQ(passed("~."), "<left>");
  EXPECT_EQ(passed("ls\r~."), "ls\r<left>");
  EXPECT_EQ(passed("ls\n~.rest"), "ls\n<left>");
  EXPECT_EQ(passed("ls ~."), "ls ~.");
  EXPECT_EQ(passed("cd ~/x\r"), "cd ~/x\r");
}

TEST(EscapeFilter, loses_no_key_otherwise) {
  EXPECT_EQ(passed("~/bin/x\r"), "~/bin/x\r");
  EXPECT_EQ(passed("~~.\r"), "~.\r");
  EXPECT_EQ(passed("~\r~."), "~\r<left>");
  EXPECT_EQ(passed("~~~."), "~~.");
  EXPECT_EQ(passed(std::string_view("\0\x03\xff~", 4)), std::string_view("\0\x03\xff~", 4));
}

TEST(EscapeFilter, whole_pastes_stop_at_the_escape) {
  const auto got = EscapeFilter().feed("a\r~.b");
  EXPECT_EQ(got.bytes, "a\r");
  EXPECT_TRUE(got.leave);
}

}  // namespace
}  // namespace cli
