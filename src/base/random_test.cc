#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/secret.h"

namespace base {
namespace {

constexpr size_t kDraws = 1000;

TEST(NewId, is_a_dns_label_and_never_repeats) {
  KernelRandom random;
  std::set<std::string> ids;
  for (size_t i = 0; i < kDraws; ++i) {
    const std::string id = new_id(random, "sb");
    ASSERT_EQ(id.size(), 19U);
    ASSERT_TRUE(id.starts_with("sb-"));
    ASSERT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567", 3), std::string::npos) << id;
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), kDraws);
}

TEST(NewSecret, has_256_bits_of_base64url) {
  KernelRandom random;
  std::set<char> seen;
  for (size_t i = 0; i < kDraws; ++i) {
    const std::string secret = new_secret(random);
    ASSERT_EQ(secret.size(), 43U);
    seen.insert(secret.begin(), secret.end());
  }
  EXPECT_EQ(seen.size(), 64U);  // every character of the alphabet, none besides
}

TEST(Secret, moves_and_is_empty_by_default) {
  EXPECT_TRUE(Secret().empty());
  Secret from(std::string(100, 'x'));
  const Secret to = std::move(from);
  EXPECT_EQ(to.reveal(), std::string(100, 'x'));
}

}  // namespace
}  // namespace base
