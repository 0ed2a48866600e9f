#include "wire/json.h"

#include <gtest/gtest.h>

#include <string>

namespace wire::json {
namespace {

using base::ErrorCode;

ErrorCode code_of(const auto& result) { return result ? ErrorCode::internal : result.error().code; }

std::string field_of(const auto& result) {
  if (result || result.error().details.empty()) {
    return "";
  }
  return result.error().details.front().second;
}

TEST(Parse, refuses_what_is_not_one_json_text) {
  for (const char* text :
       {"", " ", "{", "{} {}", "{}x", "{\"a\":1,}", "[1 2]", "nul", "'a'", "{\"a\":NaN}",
        "\"\\ud800\"", "\"\xff\"", "\"\x01\"", "// c\n{}", "01"}) {
    EXPECT_EQ(code_of(parse(text)), ErrorCode::malformed) << text;
  }
}

TEST(Parse, refuses_numbers_that_would_be_infinite) {
  const std::string digits(400, '9');
  for (const std::string& number :
       {std::string("333333333e00333333333"), std::string("-1e999"), digits}) {
    EXPECT_EQ(code_of(parse(number)), ErrorCode::malformed) << number;
    EXPECT_EQ(code_of(parse("{\"a\":[{\"b\":" + number + "}]}")), ErrorCode::malformed) << number;
  }
  EXPECT_TRUE(parse("[1e308, -1e308, 1e-999]"));
}

TEST(Parse, bounds_depth) {
  EXPECT_TRUE(parse(std::string(kDepthMax, '[') + std::string(kDepthMax, ']')));
  const std::string deep(100'000, '[');
  EXPECT_EQ(code_of(parse(deep)), ErrorCode::malformed);
}

TEST(Parse, finds_a_key_that_stands_twice_wherever_and_however_it_is_written) {
  for (const char* text : {R"({"a":1,"a":2})", R"({"a":1,"\u0061":1})", R"({"x":[{"a":1,"a":1}]})",
                           R"({"x":{"":0,"":0}})", R"({"a":":","a":"\":"})"}) {
    EXPECT_EQ(code_of(parse_object_of_unique_keys(text)), ErrorCode::malformed) << text;
  }
  for (const char* text : {"{}", R"({"a":"\\","b":":\":"})", R"({"a":{"a":[{"a":1},{"a":1}]}})"}) {
    EXPECT_TRUE(parse_object_of_unique_keys(text)) << text;
  }
}

TEST(Parse, keeps_nul_and_astral_characters) {
  const auto value = parse(R"("a\u0000\ud83d\ude00")");
  ASSERT_TRUE(value);
  EXPECT_EQ(std::string_view(value->get_string()), std::string_view("a\0\xF0\x9F\x98\x80", 6));
}

TEST(ParseObject, refuses_other_values) {
  EXPECT_EQ(code_of(parse_object("[]")), ErrorCode::malformed);
  EXPECT_TRUE(parse_object("{}"));
}

TEST(Reader, reads_each_type) {
  const auto object =
      parse_object(R"({"s":"x","i":-5,"e":1e3,"d":0.5,"n":2,"b":true,"o":{"k":1},"a":[1],"v":null,)"
                   R"("l":["x","y"],"m":{"k":"v"}})");
  ASSERT_TRUE(object);
  Reader reader(*object);
  EXPECT_EQ(reader.required<std::string>("s"), "x");
  EXPECT_EQ(reader.required<int64_t>("i"), -5);
  EXPECT_EQ(reader.required<int64_t>("e"), 1000);
  EXPECT_EQ(reader.required<double>("d"), 0.5);
  EXPECT_EQ(reader.required<double>("n"), 2.0);
  EXPECT_EQ(reader.required<bool>("b"), true);
  EXPECT_EQ(reader.required<Object>("o")->size(), 1U);
  EXPECT_EQ(reader.required<Array>("a")->size(), 1U);
  EXPECT_EQ(reader.required<std::vector<std::string>>("l"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ((reader.required<std::map<std::string, std::string>>("m")),
            (std::map<std::string, std::string>{{"k", "v"}}));
  EXPECT_EQ(*reader.optional<std::string>("v"), std::nullopt);
  EXPECT_TRUE(reader.finish());
}

TEST(Reader, names_the_field_that_is_wrong) {
  const auto object = parse_object(
      R"({"s":1,"i":1.5,"big":1e300,"d":"1","b":0,"o":[],"a":{},"l":["x",1],"m":{"k":1}})");
  ASSERT_TRUE(object);
  Reader reader(*object, "spec");
  EXPECT_EQ(field_of(reader.optional<std::string>("s")), "spec.s");
  EXPECT_EQ(field_of(reader.optional<int64_t>("i")), "spec.i");
  EXPECT_EQ(field_of(reader.optional<int64_t>("big")), "spec.big");
  EXPECT_EQ(field_of(reader.optional<double>("d")), "spec.d");
  EXPECT_EQ(field_of(reader.optional<bool>("b")), "spec.b");
  EXPECT_EQ(field_of(reader.optional<Object>("o")), "spec.o");
  EXPECT_EQ(field_of(reader.optional<Array>("a")), "spec.a");
  EXPECT_EQ(field_of(reader.optional<std::vector<std::string>>("l")), "spec.l");
  EXPECT_EQ(field_of(reader.optional<std::map<std::string, std::string>>("m")), "spec.m.k");
  EXPECT_EQ(code_of(reader.optional<bool>("b")), ErrorCode::invalid_field);
}

TEST(Reader, integers_past_64_bits_are_refused) {
  const auto object = parse_object(R"({"a":9223372036854775808,"b":9223372036854775807})");
  ASSERT_TRUE(object);
  Reader reader(*object);
  EXPECT_EQ(code_of(reader.optional<int64_t>("a")), ErrorCode::invalid_field);
  EXPECT_EQ(reader.required<int64_t>("b"), INT64_MAX);
}

TEST(Reader, missing_and_null_are_both_absent) {
  const auto object = parse_object(R"({"n":null})");
  Reader reader(*object, "network");
  EXPECT_EQ(code_of(reader.required<std::string>("n")), ErrorCode::missing_field);
  EXPECT_EQ(field_of(reader.required<std::string>("mode")), "network.mode");
}

TEST(Reader, names_the_first_unknown_field) {
  const auto object = parse_object(R"({"known":1,"unknwon":2})");
  Reader reader(*object, "network");
  ASSERT_TRUE(reader.required<int64_t>("known"));
  const auto finished = reader.finish();
  EXPECT_EQ(code_of(finished), ErrorCode::unknown_field);
  EXPECT_EQ(field_of(finished), "network.unknwon");
}

TEST(ErrorBody, has_code_message_details_and_request_id) {
  const auto failure = base::fail_field("cpus", "a \"quoted\" \n message");
  EXPECT_EQ(error_body(failure.error(), "req-1"),
            R"({"error":{"code":"invalid_field","message":"a \"quoted\" \n message",)"
            R"("details":{"field":"cpus","request_id":"req-1"}}})");
}

}  // namespace
}  // namespace wire::json
