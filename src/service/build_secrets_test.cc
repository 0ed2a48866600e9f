#include "service/build_secrets.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace service {
namespace {

TEST(BuildSecrets, are_bytes_by_their_ids) {
  const auto parsed =
      parse_build_secrets(R"({"x":")" + base::base64(std::string("a\0b", 3)) + R"(","e":""})",
                          R"({"default":")" + base::base64("key") + R"("})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->values.at("x").reveal(), std::string("a\0b", 3));
  EXPECT_TRUE(parsed->values.at("e").empty());
  EXPECT_EQ(parsed->keys.at("default").reveal(), "key");
  EXPECT_EQ(build_secrets_file(*parsed).reveal(),
            R"({"secrets":{"e":"","x":"YQBi"},"ssh":{"default":"a2V5"}})");
  EXPECT_TRUE(parse_build_secrets("", "")->empty());
}

TEST(BuildSecrets, that_are_wrong_name_their_header_and_never_what_was_given) {
  const std::string long_id(65, 'x');
  const std::string large = base::base64(std::string(BuildSecrets::kBytesMax + 1, 'x'));
  std::string many = "{";
  for (size_t i = 0; i <= BuildSecrets::kCountMax; ++i) {
    many += (i == 0 ? "\"i" : ",\"i") + std::to_string(i) + "\":\"\"";
  }
  for (const std::string& text :
       {std::string("hunter2"), std::string("[]"), std::string(R"({"x":"hunter2!"})"),
        std::string(R"({"x":1})"), std::string(R"({"x":"","x":""})"), std::string(R"({"../x":""})"),
        std::string(R"({"":""})"), std::string(R"({".x":""})"), R"({")" + long_id + R"(":""})",
        R"({"x":")" + large + R"("})", many + "}"}) {
    const auto values = parse_build_secrets(text, "");
    const auto keys = parse_build_secrets("", text);
    ASSERT_FALSE(values) << text;
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(values.error().details.front().second, "X-Build-Secrets");
    EXPECT_EQ(keys.error().details.front().second, "X-Build-Ssh");
    EXPECT_FALSE(values.error().message.contains("hunter2"));
  }
}

}  // namespace
}  // namespace service
