#include "service/secret_box.h"

#include <gtest/gtest.h>

namespace service {
namespace {

MasterKey key_of(char c) { return make_master_key(base::Secret(std::string(kMasterKeyBytes, c))); }

class SecretBoxTest : public testing::Test {
 protected:
  SecretBox box(const std::string& keys, char current) {
    KeyRing ring;
    for (const char c : keys) {
      ring.push_back(key_of(c));
    }
    return {ring, key_of(current).id, random_};
  }
  base::KernelRandom random_;
};

TEST_F(SecretBoxTest, opens_what_it_sealed_for_that_purpose_only) {
  const SecretBox one = box("a", 'a');
  const std::string sealed = one.seal("text", "p");
  EXPECT_EQ(one.unseal(sealed, "p")->reveal(), "text");
  EXPECT_FALSE(one.unseal(sealed, "q"));
  EXPECT_NE(one.seal("text", "p"), sealed);
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string other = sealed;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(one.unseal(other, "p")) << i;
    EXPECT_FALSE(one.unseal(sealed.substr(0, i), "p")) << i;
  }
}

TEST_F(SecretBoxTest, names_the_key_before_what_it_sealed) {
  EXPECT_TRUE(box("ab", 'b').seal("x", "p").starts_with(key_of('b').raw_id));
  EXPECT_EQ(box("ab", 'b').key_ids(), key_of('b').id + " " + key_of('a').id);
}

TEST_F(SecretBoxTest, a_former_key_opens_and_one_that_is_gone_does_not) {
  const std::string sealed = box("a", 'a').seal("text", "p");
  EXPECT_EQ(box("ab", 'b').unseal(sealed, "p")->reveal(), "text");
  EXPECT_EQ(box("ba", 'b').unseal(sealed, "p")->reveal(), "text");
  EXPECT_FALSE(box("b", 'b').unseal(sealed, "p"));
}

TEST_F(SecretBoxTest, opens_what_was_sealed_before_keys_had_ids) {
  const std::string former = box("a", 'a').seal("text", "p").substr(kKeyIdBytes);
  EXPECT_EQ(box("ba", 'b').unseal(former, "p")->reveal(), "text");
  EXPECT_FALSE(box("b", 'b').unseal(former, "p"));
}

TEST_F(SecretBoxTest, changes_keys_while_it_is_used) {
  SecretBox one = box("a", 'a');
  const std::string sealed = one.seal("text", "p");
  one.use({key_of('a'), key_of('b')}, key_of('b').id);
  EXPECT_EQ(one.current().id, key_of('b').id);
  EXPECT_TRUE(one.unseal(sealed, "p"));
  one.use({key_of('b')}, key_of('b').id);
  EXPECT_FALSE(one.unseal(sealed, "p"));
}

TEST_F(SecretBoxTest, signatures_of_former_keys_are_known) {
  const auto both = box("ab", 'b').signatures("x");
  EXPECT_EQ(both, (std::vector{box("a", 'a').sign("x"), box("b", 'b').sign("x")}));
  EXPECT_EQ(box("ab", 'b').sign("x"), both.back());
}

}  // namespace
}  // namespace service
