#include "service/ssh_tokens.h"

#include <gtest/gtest.h>

namespace service {
namespace {

constexpr int64_t kNow = 1'800'000'000'000;
constexpr int64_t kLifetimeMs = SshTokens::kLifetimeSec * 1000;

class SshToken : public testing::Test {
 protected:
  SshTokens tokens_of(char key) {
    boxes_.push_back(
        std::make_unique<SecretBox>(base::Secret(std::string(kMasterKeyBytes, key)), random_));
    return SshTokens(*boxes_.back());
  }
  static Caller caller() {
    return {.team = "red",
            .subject = "ann",
            .token_id = "tok-1",
            .is_admin = true,
            .may_read = true,
            .may_use_sandboxes = true,
            .memberships = {{.team = "blue", .role = model::Role::member}},
            .remote = "192.0.2.1"};
  }
  static bool is_refused(const base::Result<SshTokens::Pass>& pass) {
    return !pass && pass.error().code == base::ErrorCode::unauthenticated;
  }

  base::KernelRandom random_;
  std::vector<std::unique_ptr<SecretBox>> boxes_;
};

TEST_F(SshToken, opens_one_sandbox_in_the_name_of_who_asked) {
  const auto token = tokens_of('k').issue(caller(), "sbx-1", "", kNow);
  ASSERT_TRUE(token);
  EXPECT_TRUE(token->starts_with("eyJ"));
  const auto pass = tokens_of('k').verify(*token, kNow + kLifetimeMs - 1000);
  ASSERT_TRUE(pass);
  EXPECT_EQ(pass->sandbox, "sbx-1");
  EXPECT_EQ(pass->caller.team, "red");
  EXPECT_EQ(pass->caller.token_id, "tok-1");
  EXPECT_EQ(pass->caller.memberships.size(), 1U);
  EXPECT_EQ(pass->caller.remote, "");
  EXPECT_EQ(pass->container, "");
  const auto into = tokens_of('k').issue(caller(), "sbx-1", "db", kNow);
  ASSERT_TRUE(into);
  EXPECT_EQ(tokens_of('k').verify(*into, kNow)->container, "db");
}

TEST_F(SshToken, ends_in_time) {
  const auto token = tokens_of('k').issue(caller(), "sbx-1", "", kNow);
  EXPECT_TRUE(is_refused(tokens_of('k').verify(*token, kNow + kLifetimeMs)));
  // A clock that was set back does not make it live longer.
  EXPECT_TRUE(is_refused(tokens_of('k').verify(*token, kNow - kLifetimeMs - 1000)));
}

TEST_F(SshToken, of_another_store_opens_nothing) {
  const auto token = tokens_of('k').issue(caller(), "sbx-1", "", kNow);
  EXPECT_TRUE(is_refused(tokens_of('x').verify(*token, kNow)));
}

TEST_F(SshToken, with_one_bit_changed_opens_nothing) {
  const SshTokens tokens = tokens_of('k');
  const auto token = tokens.issue(caller(), "sbx-1", "", kNow);
  for (size_t at = 0; at < token->size(); ++at) {
    std::string changed = *token;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_TRUE(is_refused(tokens.verify(changed, kNow))) << at;
  }
}

TEST_F(SshToken, that_names_another_algorithm_or_is_cut_opens_nothing) {
  const SshTokens tokens = tokens_of('k');
  const auto token = tokens.issue(caller(), "sbx-1", "", kNow);
  const std::string body = token->substr(token->find('.') + 1);
  const std::string none = base::base64url(R"({"alg":"none","typ":"JWT"})");
  for (const std::string& one :
       {base::cat(none, ".", body), base::cat(none, ".", body.substr(0, body.find('.')), "."),
        token->substr(0, token->size() - 1), token->substr(0, token->rfind('.')),
        token->substr(0, 10), std::string(), std::string("."), std::string(".."),
        std::string(9000, 'x'), *token + "."}) {
    EXPECT_TRUE(is_refused(tokens.verify(one, kNow))) << one;
  }
}

TEST_F(SshToken, is_not_made_longer_than_a_user_name_may_be) {
  Caller one = caller();
  one.subject = std::string(SshTokens::kBytesMax, 's');
  EXPECT_FALSE(tokens_of('k').issue(one, "sbx-1", "", kNow));
}

}  // namespace
}  // namespace service
