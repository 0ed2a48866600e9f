#include "oidc/issuing_key.h"

#include <gtest/gtest.h>

#include "oidc/key_set.h"

namespace oidc {
namespace {

KeySet set_of(const IssuingKey& key) {
  return *KeySet::parse(base::cat(R"({"keys":[)", key.public_text(), "]}"));
}

TEST(IssuingKey, what_it_signs_its_public_half_verifies) {
  const IssuingKey key = IssuingKey::make();
  for (int i = 0; i < 50; ++i) {  // r or s begins with zeros now and then
    const std::string token = key.sign({{"sub", "a"}, {"n", i}});
    const auto jwt = parse_jwt(token);
    ASSERT_TRUE(jwt.has_value());
    EXPECT_EQ(jwt->head.key_id, key.id());
    EXPECT_TRUE(set_of(key).verify(*jwt).has_value());
    EXPECT_FALSE(set_of(IssuingKey::make()).verify(*jwt).has_value());
  }
}

TEST(IssuingKey, it_is_the_same_after_it_was_kept) {
  const IssuingKey key = IssuingKey::make();
  const auto again = IssuingKey::parse(key.private_text());
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->id(), key.id());
  const std::string token = again->sign({{"sub", "a"}});
  EXPECT_TRUE(set_of(key).verify(*parse_jwt(token)).has_value());
}

TEST(IssuingKey, what_is_no_key_is_refused) {
  EXPECT_FALSE(IssuingKey::parse(base::Secret("")).has_value());
  EXPECT_FALSE(IssuingKey::parse(base::Secret("nonsense")).has_value());
}

}  // namespace
}  // namespace oidc
