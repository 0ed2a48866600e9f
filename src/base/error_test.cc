#include "base/error.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace base {
namespace {

TEST(ErrorCode, spellings_are_unique_and_parse_back) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ErrorCode::io); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    const std::string_view name = to_string(code);
    EXPECT_TRUE(names.insert(name).second) << name;
    ErrorCode parsed = ErrorCode::internal;
    EXPECT_TRUE(parse_error_code(name, parsed));
    EXPECT_EQ(parsed, code);
    EXPECT_GE(http_status(code), 400);
    EXPECT_LE(http_status(code), 507);
  }
  ErrorCode untouched = ErrorCode::conflict;
  EXPECT_FALSE(parse_error_code("no_such_code", untouched));
  EXPECT_EQ(untouched, ErrorCode::conflict);
}

TEST(Error, names_the_step_and_the_errno) {
  const Error error = errno_error(ENOENT, "open /x");
  EXPECT_EQ(error.code, ErrorCode::io);
  EXPECT_EQ(error.errno_value, ENOENT);
  EXPECT_EQ(error.message, "open /x: No such file or directory");
}

Result<int> add_one(Result<int> input) {
  ASSIGN_OR_RETURN(const int value, std::move(input));
  return value + 1;
}

TEST(AssignOrReturn, hands_on_value_and_error) {
  EXPECT_EQ(add_one(1), 2);
  const auto failed = add_one(fail(ErrorCode::not_found, "no ", 7));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no 7");
}

TEST(WithContext, goes_before_the_message_and_keeps_the_code) {
  const auto failed = with_context(Result<int>(fail_field("cpus", "bad")), "create");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "create: bad");
  EXPECT_EQ(failed.error().code, ErrorCode::invalid_field);
  EXPECT_EQ(failed.error().details.front(), std::pair(std::string("field"), std::string("cpus")));
}

}  // namespace
}  // namespace base
