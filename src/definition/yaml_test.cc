#include "definition/yaml.h"

#include <gtest/gtest.h>

namespace definition {
namespace {

std::string as_json(std::string_view text) {
  const auto value = parse_yaml(text);
  return value ? wire::json::serialize(*value) : "error: " + value.error().message;
}

bool fails(std::string_view text) {
  const auto value = parse_yaml(text);
  return !value && value.error().code == base::ErrorCode::malformed;
}

TEST(Yaml, becomes_the_json_that_it_stands_for) {
  EXPECT_EQ(as_json("teams:\n- name: red\n  quota: {cpus: 1.5, memory_mb: 2048}\n  builds: true\n"),
            R"({"teams":[{"name":"red","quota":{"cpus":1.5E0,"memory_mb":2048},"builds":true}]})");
  EXPECT_EQ(as_json("[1, -2, +3, 0.5, 1e3, ~, null, 'null', \"7\", text, 2026-01-01]"),
            R"([1,-2,3,5E-1,1E3,null,null,"null","7","text","2026-01-01"])");
  EXPECT_EQ(as_json("a: |\n  one\n  two\nb:\n"), "{\"a\":\"one\\ntwo\\n\",\"b\":null}");
}

TEST(Yaml, takes_no_words_for_truth_values_but_true_and_false) {
  EXPECT_EQ(as_json("[yes, no, on, off, y, n]"), R"(["yes","no","on","off","y","n"])");
  EXPECT_EQ(as_json("[010, 0x10, 1_000, 1:30, .inf, 99999999999999999999]"),
            R"([10,"0x10","1_000","1:30",".inf","99999999999999999999"])");
}

TEST(Yaml, aliases_are_copies) {
  EXPECT_EQ(as_json("a: &x {b: 1}\nc: *x\nd: [*x]\n"),
            R"({"a":{"b":1},"c":{"b":1},"d":[{"b":1}]})");
  EXPECT_TRUE(fails("a: *x\n"));
  EXPECT_TRUE(fails("a: &x [*x]\n"));
  EXPECT_TRUE(fails("a: &x {b: 1}\n*x : 2\n"));
}

TEST(Yaml, a_text_that_grows_by_aliases_is_refused) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = base::cat("*a", i - 1);
    bomb += base::cat("a", i, ": &a", i, " [");
    for (int n = 0; n < 10; ++n) {
      bomb += before + ",";
    }
    bomb += "]\n";
  }
  EXPECT_TRUE(fails(bomb));
}

TEST(Yaml, bad_texts_are_refused_with_their_line) {
  for (const std::string_view text :
       {"", "a: 1\na: 2\n", "a: [1\n", "{a: 1", "a: 1\n---\nb: 2\n", "!!binary aGk=", "a: !x 1",
        "{[1]: 2}", "\xFF", "\xFE\xFF", "a:\n\t- 1\n", "{&a a: 1, *a : 2}"}) {
    EXPECT_TRUE(fails(text)) << text;
  }
  EXPECT_EQ(parse_yaml("a: 1\nb: 2\na: 3\n").error().message, "line 3: the key 'a' stands twice");
  EXPECT_TRUE(fails(std::string(kDepthMax + 1, '[') + std::string(kDepthMax + 1, ']')));
  EXPECT_FALSE(fails(std::string(kDepthMax, '[') + std::string(kDepthMax, ']')));
  EXPECT_TRUE(fails(std::string(kBytesMax + 1, ' ')));
}

}  // namespace
}  // namespace definition
