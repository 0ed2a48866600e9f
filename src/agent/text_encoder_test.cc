#include "agent/text_encoder.h"

#include <gtest/gtest.h>

#include "wire/json.h"

namespace agent {
namespace {

// All cuts of the text into three pieces.
void expect_encoded(OutputEncoding encoding, std::string_view bytes, std::string_view expected) {
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      TextEncoder encoder(encoding);
      std::string out;
      encoder.add(out, bytes.substr(0, first));
      encoder.add(out, bytes.substr(first, second - first));
      encoder.add(out, bytes.substr(second));
      encoder.finish(out);
      ASSERT_EQ(out, expected) << "cut at " << first << ", " << second;
    }
  }
}

TEST(TextEncoder, valid_text_passes_whatever_the_cuts) {
  expect_encoded(OutputEncoding::utf8, "a€b🙂äc", "a€b🙂äc");
}

TEST(TextEncoder, controls_are_escaped) {
  using std::string_view_literals::operator""sv;
  expect_encoded(OutputEncoding::utf8, "\0\x01\n\r\t\"\\\x1f"sv,
                 "\\u0000\\u0001\\n\\r\\t\\\"\\\\\\u001f");
}

TEST(TextEncoder, each_invalid_part_is_one_replacement) {
  // A lone byte, a cut character, a surrogate (three parts), an overlong form, beyond Unicode.
  expect_encoded(OutputEncoding::utf8, "\xffx", "\uFFFDx");
  expect_encoded(OutputEncoding::utf8, "\xe2\x82x", "\uFFFDx");
  expect_encoded(OutputEncoding::utf8, "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD");
  expect_encoded(OutputEncoding::utf8, "\xc0\xaf", "\uFFFD\uFFFD");
  expect_encoded(OutputEncoding::utf8, "\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD");
  expect_encoded(OutputEncoding::utf8, "\xf0\x9f\x99\xe2\x82\xac", "\uFFFD€");
  expect_encoded(OutputEncoding::utf8, "a\xe2\x82", "a\uFFFD");
}

TEST(TextEncoder, base64_is_one_text_whatever_the_cuts) {
  expect_encoded(OutputEncoding::base64, "abcdefg", "YWJjZGVmZw==");
  expect_encoded(OutputEncoding::base64, "", "");
  expect_encoded(OutputEncoding::base64, "\xff\xfe", "//4=");
}

TEST(TextEncoder, any_two_bytes_give_valid_json) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string bytes{static_cast<char>(first), static_cast<char>(second)};
      TextEncoder encoder(OutputEncoding::utf8);
      std::string out = "\"";
      encoder.add(out, bytes);
      encoder.finish(out);
      ASSERT_TRUE(wire::json::parse(out + "\"").has_value()) << first << " " << second;
    }
  }
}

TEST(TextEncoder, every_byte_is_the_same_wherever_it_stands) {
  for (int value = 0; value < 128; ++value) {
    std::string alone;
    TextEncoder(OutputEncoding::utf8).add(alone, std::string(1, static_cast<char>(value)));
    for (size_t at = 0; at < 20; ++at) {
      std::string bytes(20, 'x');
      bytes[at] = static_cast<char>(value);
      std::string out;
      TextEncoder(OutputEncoding::utf8).add(out, bytes);
      ASSERT_EQ(out, std::string(at, 'x') + alone + std::string(19 - at, 'x')) << value;
    }
  }
}

}  // namespace
}  // namespace agent
