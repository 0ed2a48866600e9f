#include "oidc/issuer.h"

#include <gtest/gtest.h>

#include "oidc/issuer_testing.h"
#include "oidc/url.h"

namespace oidc {
namespace {

using namespace std::chrono_literals;
using net::Task;

constexpr const char* kDocumentUrl = "https://issuer/.well-known/openid-configuration";
constexpr const char* kKeysUrl = "https://issuer/keys";

struct Issuers : ::testing::Test {
  net::EventLoop loop;
  base::FakeClock clock;
  base::Log log{-1};
  FakeHttp http;
  SigningKey first{SigningKey::Kind::p256, "first"};
  SigningKey second{SigningKey::Kind::p256, "second"};
  Issuer issuer{loop, clock, log, http, {.url = "https://issuer", .client_id = "us"}};

  Issuers() {
    document(R"("issuer":"https://issuer","jwks_uri":"https://issuer/keys")");
    http.answer(kKeysUrl, key_set_of({first.jwk()}));
  }
  ~Issuers() override { run(issuer.stop()); }

  void document(const std::string& members) { http.answer(kDocumentUrl, "{" + members + "}"); }
  void run(Task<void> task) {
    net::TaskGroup group(loop);
    group.spawn(std::move(task));
    while (group.size() > 0) {
      loop.run_once(100ms);
    }
  }
  // Whether a token of that key could be checked.
  bool knows(const SigningKey& key) {
    return issuer.keys() != nullptr && issuer.keys()->has_key_for(*parse_jwt_head(key.token("{}")));
  }
};

TEST_F(Issuers, keys_are_fetched_when_they_are_needed_and_again_when_they_change) {
  EXPECT_EQ(issuer.keys(), nullptr);
  run(issuer.fetch_again());
  EXPECT_TRUE(knows(first));
  http.answer(kKeysUrl, key_set_of({second.jwk()}));
  clock.advance(Issuer::kFetchPause);
  const uint64_t before = issuer.keys_version();
  run(issuer.fetch_again());
  EXPECT_TRUE(knows(second));
  EXPECT_FALSE(knows(first));
  EXPECT_NE(issuer.keys_version(), before);
}

TEST_F(Issuers, tokens_of_unknown_keys_do_not_make_it_ask_all_the_time) {
  for (int i = 0; i < 100; ++i) {
    run(issuer.fetch_again());
  }
  EXPECT_EQ(http.asked(kKeysUrl), 1);
  clock.advance(Issuer::kFetchPause);
  run(issuer.fetch_again());
  EXPECT_EQ(http.asked(kKeysUrl), 2);
}

TEST_F(Issuers, keys_hold_while_the_issuer_is_away_but_not_for_ever) {
  run(issuer.fetch_again());
  http.forget(kDocumentUrl);
  clock.advance(1h);
  run(issuer.fetch_again());
  EXPECT_TRUE(knows(first));
  clock.advance(Issuer::kKeysHoldFor);
  EXPECT_EQ(issuer.keys(), nullptr);
}

TEST_F(Issuers, one_that_is_away_at_first_is_found_later) {
  http.forget(kDocumentUrl);
  run(issuer.fetch_again());
  EXPECT_EQ(issuer.keys(), nullptr);
  EXPECT_FALSE(issuer.endpoints());
  document(R"("issuer":"https://issuer","jwks_uri":"https://issuer/keys")");
  clock.advance(Issuer::kFetchPause);
  run(issuer.fetch_again());
  EXPECT_TRUE(knows(first));
}

TEST_F(Issuers, a_document_that_is_not_to_be_trusted_gives_no_keys) {
  for (
      const char* members :
      {R"("issuer":"https://other","jwks_uri":"https://issuer/keys")",
       R"("issuer":"https://issuer/","jwks_uri":"https://issuer/keys")",
       R"("issuer":"https://issuer")", R"("issuer":"https://issuer","jwks_uri":"")",
       R"("issuer":"https://issuer","jwks_uri":"http://issuer/keys")",
       R"("issuer":"https://issuer","jwks_uri":"http://127.0.0.1/keys")",
       R"("issuer":"https://issuer","jwks_uri":"file:///etc/passwd")",
       R"("issuer":"https://issuer","jwks_uri":"https://issuer/keys","token_endpoint":"http://x/")"}) {
    document(members);
    clock.advance(Issuer::kFetchPause);
    run(issuer.fetch_again());
    EXPECT_EQ(issuer.keys(), nullptr) << members;
  }
}

TEST_F(Issuers, a_code_is_changed_with_the_clients_secret_where_the_issuer_wants_it) {
  std::string form;
  std::string user;
  http.answer_by("https://issuer/token", [&](const HttpRequest& request) {
    form = request.form;
    user = request.username;
    return HttpAnswer{.status = 200, .body = R"({"id_token":"t","access_token":"a"})"};
  });
  const auto exchange = [](Issuer& from, Result<Granted>& out) -> Task<void> {
    out = co_await from.exchange("a&b", "v", "https://us/login/callback");
  };
  document(R"("issuer":"https://issuer","jwks_uri":"https://issuer/keys",
              "token_endpoint":"https://issuer/token")");
  Issuer with_secret{
      loop,
      clock,
      log,
      http,
      {.url = "https://issuer", .client_id = "us", .client_secret = base::Secret("s")}};
  Result<Granted> granted;
  run(with_secret.fetch_again());
  run(exchange(with_secret, granted));
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->id_token, "t");
  EXPECT_EQ(user, "us");
  EXPECT_EQ(form,
            "grant_type=authorization_code&code=a%26b&redirect_uri=https%3A//us/login/"
            "callback&code_verifier=v");
  document(R"("issuer":"https://issuer","jwks_uri":"https://issuer/keys",
              "token_endpoint":"https://issuer/token",
              "token_endpoint_auth_methods_supported":["client_secret_post"])");
  clock.advance(Issuer::kFetchPause);
  run(with_secret.fetch_again());
  run(exchange(with_secret, granted));
  EXPECT_EQ(user, "");
  EXPECT_TRUE(form.ends_with("&client_id=us&client_secret=s")) << form;
  http.answer("https://issuer/token", R"({"error":"invalid_grant"})", 400);
  run(exchange(with_secret, granted));
  EXPECT_EQ(granted.error().code, ErrorCode::unauthenticated);
  http.answer("https://issuer/token", "<html>", 200);
  run(exchange(with_secret, granted));
  EXPECT_EQ(granted.error().code, ErrorCode::unavailable);
  run(with_secret.stop());
}

TEST(Url, is_https_or_of_this_machine) {
  for (const char* url : {"https://a", "https://a:8443/x/y", "http://127.0.0.1:5556/dex",
                          "http://localhost", "http://[::1]:80/x"}) {
    EXPECT_TRUE(check_url("u", url)) << url;
  }
  for (const char* url :
       {"", "a", "https://", "https:///x", "http://a", "http://127.0.0.1.evil.example",
        "http://localhost.evil.example/", "http://127.0.0.1@evil.example", "https://a?b",
        "https://a#b", "ftp://a", "HTTPS://a", "https://a b", "https://a\nb", "http://[::1",
        "https://a\\b"}) {
    EXPECT_FALSE(check_url("u", url)) << url;
  }
  EXPECT_EQ(origin_of("https://Host:1/a/b"), "https://host:1");
  EXPECT_EQ(form_of({{"a", "b c"}, {"d", "e+f&g=h"}}), "a=b%20c&d=e%2Bf%26g%3Dh");
}

}  // namespace
}  // namespace oidc
