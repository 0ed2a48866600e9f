#include "service/sandbox_keys.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

namespace service {
namespace {

class SandboxKeys : public testing::Test {
 protected:
  static std::string public_half(const std::string& seed) {
    EVP_PKEY* const key = ::EVP_PKEY_new_raw_private_key(
        EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(seed.data()),
        seed.size());
    std::string out(32, '\0');
    size_t size = out.size();
    ::EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(out.data()), &size);
    ::EVP_PKEY_free(key);
    return base::base64(out);
  }
  base::KernelRandom random_;
  SecretBox box_{base::Secret(std::string(kMasterKeyBytes, 'k')), random_};
};

TEST_F(SandboxKeys, are_a_pair_whose_private_half_is_sealed_for_its_sandbox) {
  SandboxRow row;
  row.id = "sbx-1";
  give_key(box_, row);
  const auto seed = open_sandbox_key(box_, row);
  ASSERT_TRUE(seed) << seed.error().message;
  EXPECT_EQ(seed->reveal().size(), 32U);
  EXPECT_EQ(public_half(seed->reveal()), row.public_key);
  EXPECT_EQ(row.key_sealed.find(seed->reveal()), std::string::npos);
  row.id = "sbx-2";
  EXPECT_FALSE(open_sandbox_key(box_, row));
}

TEST_F(SandboxKeys, are_each_sandbox_s_own) {
  SandboxRow one;
  SandboxRow two;
  give_key(box_, one);
  give_key(box_, two);
  EXPECT_NE(one.public_key, two.public_key);
}

TEST_F(SandboxKeys, a_sandbox_from_before_has_none) {
  EXPECT_EQ(open_sandbox_key(box_, SandboxRow{}).error().code, base::ErrorCode::not_found);
}

}  // namespace
}  // namespace service
