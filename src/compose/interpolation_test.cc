#include "compose/interpolation.h"

#include <gtest/gtest.h>

namespace compose {
namespace {

std::string shown(std::string_view text) {
  const model::EnvironmentMap variables{{"SET", "1"}, {"EMPTY", ""}};
  const auto out = interpolate(text, variables, Grammar::file, "f");
  return out ? *out : "error: " + out.error().message;
}

TEST(Interpolation, has_the_whole_grammar) {
  EXPECT_EQ(shown("$$HOME"), "$HOME");
  EXPECT_EQ(shown("$SET-${SET}-$NOPE."), "1-1-.");
  EXPECT_EQ(shown("${NOPE:-def}"), "def");
  EXPECT_EQ(shown("${EMPTY:-e1}/${EMPTY-e2}/${NOPE-e3}"), "e1//e3");
  EXPECT_EQ(shown("${SET:+yes}${EMPTY:+no}${EMPTY+yes}${NOPE+no}"), "yesyes");
  EXPECT_EQ(shown("${SET:?x}${EMPTY?x}"), "1");
  EXPECT_EQ(shown("${NOPE:-${ALSO:-${SET}}}"), "1");
  EXPECT_EQ(shown("echo $$A $$(id -u)"), "echo $A $(id -u)");
  EXPECT_EQ(shown("${NOPE:-a:b-c}"), "a:b-c");
}

TEST(Interpolation, what_is_required_and_not_set_is_refused_with_its_message) {
  EXPECT_EQ(shown("${MUST:?need it}"), "error: f: the variable MUST is required: need it");
  EXPECT_EQ(shown("${EMPTY:?}"), "error: f: the variable EMPTY is required");
}

TEST(Interpolation, any_other_dollar_is_refused) {
  for (const std::string_view text :
       {"x$", "$1", "${", "${}", "${SET", "${SET!x}", "${1A}", "$(x)", "${SET:}", "${ SET}"}) {
    EXPECT_TRUE(shown(text).starts_with("error: ")) << text;
  }
}

TEST(Interpolation, what_it_becomes_is_bounded) {
  const model::EnvironmentMap variables{{"B", std::string(kTextBytesMax / 2, 'x')}};
  EXPECT_FALSE(interpolate("$B$B$B", variables, Grammar::file, "f"));
  std::string deep;
  for (int i = 0; i < 100; ++i) {
    deep += "${X:-";
  }
  EXPECT_FALSE(interpolate(deep + std::string(100, '}'), {}, Grammar::file, "f"));
}

}  // namespace
}  // namespace compose
