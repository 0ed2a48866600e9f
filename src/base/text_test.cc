#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace base {
namespace {

TEST(Cat, joins_strings_characters_and_integers) {
  EXPECT_EQ(cat("a", 'b', std::string("c"), std::string_view("d"), 12, -3, uint64_t{18}),
            "abcd12-318");
  EXPECT_EQ(cat(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(cat(), "");
}

TEST(ParseNumber, takes_only_a_whole_number_that_fits) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<uint8_t>("255"), 255);
  EXPECT_EQ(parse_number<uint64_t>("1f", 16), 31U);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.0", "256", "-1", "1\n"}) {
    EXPECT_FALSE(parse_number<uint8_t>(text)) << '"' << text << '"';
  }
  EXPECT_FALSE(parse_number<uint64_t>("18446744073709551616"));
}

TEST(Split, keeps_empty_parts) {
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split(",a,", ','), (std::vector<std::string_view>{"", "a", ""}));
}

TEST(Trim, drops_blanks_and_tabs_only) {
  EXPECT_EQ(trim(" \t a b \t"), "a b");
  EXPECT_EQ(trim("\na\r"), "\na\r");
  EXPECT_EQ(trim("  "), "");
}

TEST(EqualsIgnoringCase, folds_ascii_and_nothing_else) {
  EXPECT_TRUE(equals_ignoring_case("ChUnKeD", "chunked"));
  EXPECT_FALSE(equals_ignoring_case("chunked", "chunke"));
  EXPECT_FALSE(equals_ignoring_case("@", "`"));  // 0x40 and 0x60 differ by the case bit
  EXPECT_FALSE(equals_ignoring_case("\xC4", "\xE4"));
}

TEST(IsUtf8, follows_rfc_3629) {
  for (const char* good : {"", "a", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(good)) << hex(good);
  }
  const char* const bad[] = {
      "\x80",              // continuation first
      "\xC0\x80",          // overlong NUL
      "\xC1\xBF",          // overlong
      "\xE0\x9F\xBF",      // overlong
      "\xED\xA0\x80",      // surrogate
      "\xF0\x8F\xBF\xBF",  // overlong
      "\xF4\x90\x80\x80",  // past U+10FFFF
      "\xF5\x80\x80\x80",  // no such first byte
      "\xE2\x82",          // cut
      "\xE2\x28\xA1",      // broken second byte
      "a\xFF",             // good, then bad
  };
  for (const char* text : bad) {
    EXPECT_FALSE(is_utf8(text)) << hex(text);
  }
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
}

TEST(Base64, matches_the_vectors_of_rfc_4648) {
  const std::pair<std::string, std::string> rows[] = {{"", ""},
                                                      {"f", "Zg=="},
                                                      {"fo", "Zm8="},
                                                      {"foo", "Zm9v"},
                                                      {"foob", "Zm9vYg=="},
                                                      {"fooba", "Zm9vYmE="},
                                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : rows) {
    EXPECT_EQ(base64(plain), encoded);
    EXPECT_EQ(decode_base64(encoded), plain);
  }
}

TEST(Base64, carries_every_byte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  EXPECT_EQ(decode_base64(base64(bytes)), bytes);
}

TEST(Base64, refuses_what_is_not_padded_standard_alphabet) {
  for (const char* text :
       {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Z=g=", "Zm9-", "Zm 9", "Zm9v\n"}) {
    EXPECT_FALSE(decode_base64(text)) << text;
  }
}

TEST(Base64Url, bytes_have_one_form) {
  std::string bytes;
  for (int value = 0; value < 256; ++value) {
    bytes += static_cast<char>(value);
    EXPECT_EQ(decode_base64url(base64url(bytes)), bytes);
  }
  EXPECT_EQ(base64url("\xfb\xff"), "-_8");
  for (const char* text : {"-_8=", "+/8", "-_9", "A", "-_8 ", "-_8\n", "YQ==", "YR"}) {
    EXPECT_FALSE(decode_base64url(text)) << text;
  }
  EXPECT_EQ(decode_base64url(""), "");
}

TEST(PercentDecode, decodes_escapes_and_refuses_broken_ones) {
  EXPECT_EQ(percent_decode("/a%2Fb%20c+d"), "/a/b c+d");
  EXPECT_EQ(percent_decode("%00"), std::string(1, '\0'));
  for (const char* text : {"%", "%2", "%zz", "a%2", "%%20"}) {
    EXPECT_FALSE(percent_decode(text)) << text;
  }
}

TEST(PercentEncode, is_undone_by_decode_and_leaves_paths_readable) {
  EXPECT_EQ(percent_encode("/a-b_c.d~/e"), "/a-b_c.d~/e");
  EXPECT_EQ(percent_encode("a b&c=\xC3\xA4"), "a%20b%26c%3D%C3%A4");
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  EXPECT_EQ(percent_decode(percent_encode(bytes)), bytes);
}

}  // namespace
}  // namespace base
