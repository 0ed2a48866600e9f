#include "wire/entity_tag.h"

#include <gtest/gtest.h>

namespace wire::http {
namespace {

TEST(EntityTag, a_condition_is_a_list_and_compares_weakly) {
  for (const char* condition : {"\"a\"", "W/\"a\"", "\"b\", \"a\"", "\"b\",W/\"a\"", "*"}) {
    EXPECT_TRUE(names_tag(condition, "\"a\"")) << condition;
  }
  for (const char* condition : {"", "a", "\"b\"", "\"A\"", "\"a", "\"b\", c"}) {
    EXPECT_FALSE(names_tag(condition, "\"a\"")) << condition;
  }
}

}  // namespace
}  // namespace wire::http
