#include "ssh/words.h"

#include <gtest/gtest.h>

namespace ssh {
namespace {

using Words = std::vector<std::string>;

TEST(ScpArguments, are_those_of_a_client_of_the_old_protocol) {
  EXPECT_EQ(scp_arguments("scp -t /root/x"), (Words{"-t", "/root/x"}));
  EXPECT_EQ(scp_arguments("scp -v -r -p -t -- dir"), (Words{"-v", "-r", "-p", "-t", "--", "dir"}));
  EXPECT_EQ(scp_arguments("scp -prf a b"), (Words{"-prf", "a", "b"}));
  EXPECT_EQ(scp_arguments("scp  -f   a"), (Words{"-f", "a"}));
}

TEST(ScpArguments, keep_what_was_quoted_from_being_a_pattern) {
  EXPECT_EQ(scp_arguments("scp -f '/a b/*'"), (Words{"-f", "/a b/\\*"}));
  EXPECT_EQ(scp_arguments("scp -f /a\\ b/\\*"), (Words{"-f", "/a b/\\*"}));
  EXPECT_EQ(scp_arguments("scp -f \"x?\" y?"), (Words{"-f", "x\\?", "y?"}));
  EXPECT_EQ(scp_arguments("scp -f 'it'\\''s'"), (Words{"-f", "it's"}));
  EXPECT_EQ(scp_arguments("scp -f '~' ~"), (Words{"-f", "\\~", "~"}));
  EXPECT_EQ(scp_arguments("scp -t ''"), (Words{"-t", ""}));
}

TEST(ScpArguments, leave_all_else_to_a_shell) {
  EXPECT_EQ(scp_arguments("scp a b"), std::nullopt);
  EXPECT_EQ(scp_arguments("scp -F config -t x"), std::nullopt);
  EXPECT_EQ(scp_arguments("scpx -t x"), std::nullopt);
  EXPECT_EQ(scp_arguments("ls; scp -t x"), std::nullopt);
  EXPECT_EQ(scp_arguments("scp -t x; rm -rf /"), std::nullopt);
  EXPECT_EQ(scp_arguments("scp -t $HOME"), std::nullopt);
  EXPECT_EQ(scp_arguments("scp -t \"$HOME\""), std::nullopt);
  EXPECT_EQ(scp_arguments("scp -t 'x"), std::nullopt);
  EXPECT_EQ(scp_arguments("scp -t x\\"), std::nullopt);
  EXPECT_EQ(scp_arguments("scp -t x > y"), std::nullopt);
}

}  // namespace
}  // namespace ssh
