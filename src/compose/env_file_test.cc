#include "compose/env_file.h"

#include <gtest/gtest.h>

namespace compose {
namespace {

std::string shown(std::string_view text, const model::EnvironmentMap& variables = {}) {
  const auto values = parse_env_file(text, variables, "env_file");
  if (!values) {
    return "error: " + values.error().message;
  }
  std::string out;
  for (const auto& [name, value] : *values) {
    out += base::cat(name, "=[", value, "]");
  }
  return out;
}

TEST(EnvFile, reads_what_compose_reads) {
  EXPECT_EQ(shown("P1=abc$def\nP2=\"abc$def\"\nP3='abc$def'\n"), "P1=[abc]P2=[abc]P3=[abc$def]");
  EXPECT_EQ(shown("P4=a b # note\nP5=\"l1\\nl2\"\nexport P6=1\n"), "P4=[a b]P5=[l1\nl2]P6=[1]");
  EXPECT_EQ(shown("# c\n\n P8 = x \nP9=\nP10=a#b\n"), "P10=[a#b]P8=[x]P9=[]");
  EXPECT_EQ(shown("\xEF\xBB\xBFONE=1\r\nTWO=2\r\n"), "ONE=[1]TWO=[2]");
  EXPECT_EQ(shown("A='one\ntwo' # c\nB=3"), "A=[one\ntwo]B=[3]");
}

TEST(EnvFile, a_name_alone_is_taken_from_the_variables) {
  EXPECT_EQ(shown("P7\nP8\n", {{"P7", "from outside"}}), "P7=[from outside]");
}

TEST(EnvFile, values_may_use_what_stands_above_and_outside) {
  EXPECT_EQ(shown("A=1\nB=${A}2\nC=${NO:-d}$OUT\n", {{"OUT", "o"}}), "A=[1]B=[12]C=[do]");
}

TEST(EnvFile, a_dollar_that_begins_no_variable_stands_for_itself) {
  EXPECT_EQ(shown("A=pa$$s\nB=x$\nC=$1\nD=\"\\$A\"\n"), "A=[pa$s]B=[x$]C=[$1]D=[$A]");
}

TEST(EnvFile, what_is_no_line_is_refused_with_its_number) {
  EXPECT_EQ(shown("A=1\n=2\n"), "error: env_file: line 2: no NAME=value");
  EXPECT_EQ(shown("A='x\n"), "error: env_file: line 2: a quote that does not end");
  EXPECT_EQ(shown("A=\"x\"y\n"), "error: env_file: line 1: text behind a quote that has ended");
  EXPECT_EQ(shown("a b=1\n"), "error: env_file: line 1: no NAME=value");
  EXPECT_EQ(shown(std::string("A=\0", 3)), "error: env_file: is no text in UTF-8");
}

}  // namespace
}  // namespace compose
