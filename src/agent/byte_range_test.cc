#include "agent/byte_range.h"

#include <gtest/gtest.h>

namespace agent {
namespace {

struct Row {
  std::string_view header;
  uint64_t begin;
  uint64_t size;
};

TEST(ByteRange, one_range_is_taken) {
  for (const Row& row : {Row{"bytes=0-0", 0, 1}, Row{"bytes=0-9", 0, 10}, Row{"bytes=5-100", 5, 5},
                         Row{"bytes=9-", 9, 1}, Row{"bytes=-4", 6, 4}, Row{"bytes=-99", 0, 10},
                         Row{"Bytes=1-2", 1, 2}, Row{"bytes=3-18446744073709551616", 3, 7}}) {
    const auto range = parse_range(row.header, 10);
    ASSERT_TRUE(range.has_value() && range->has_value()) << row.header;
    EXPECT_EQ((*range)->begin, row.begin) << row.header;
    EXPECT_EQ((*range)->size, row.size) << row.header;
  }
}

TEST(ByteRange, what_is_no_single_range_is_answered_whole) {
  for (const std::string_view header :
       {"bytes=", "bytes=-", "bytes=a-b", "bytes=3-2", "bytes=0-1,4-5", "lines=1-2", "", "bytes",
        "bytes=1--2", "bytes=+1-2"}) {
    const auto range = parse_range(header, 10);
    ASSERT_TRUE(range.has_value()) << header;
    EXPECT_FALSE(range->has_value()) << header;
  }
}

TEST(ByteRange, past_the_end_is_not_satisfiable) {
  EXPECT_FALSE(parse_range("bytes=10-", 10).has_value());
  EXPECT_FALSE(parse_range("bytes=-0", 10).has_value());
  EXPECT_FALSE(parse_range("bytes=0-", 0).has_value());
  EXPECT_FALSE(parse_range("bytes=-5", 0).has_value());
  EXPECT_FALSE(parse_range("bytes=18446744073709551616-", 10).has_value());
}

TEST(HttpDate, is_as_rfc_9110_has_it) {
  EXPECT_EQ(http_date(784'111'777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(-5), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(INT64_MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

}  // namespace
}  // namespace agent
