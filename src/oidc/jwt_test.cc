#include "oidc/jwt.h"

#include <gtest/gtest.h>

#include "oidc/claims.h"
#include "oidc/issuer_testing.h"

namespace oidc {
namespace {

using Kind = SigningKey::Kind;

const SigningKey& rsa() {
  static const SigningKey key(Kind::rsa, "r");
  return key;
}
const SigningKey& p256() {
  static const SigningKey key(Kind::p256, "e");
  return key;
}
const SigningKey& ed25519() {
  static const SigningKey key(Kind::ed25519, "d");
  return key;
}

std::string token_of(std::string_view head, std::string_view claims = "{}",
                     std::string_view signature = "c2ln") {
  return base::cat(base::base64url(head), ".", base::base64url(claims), ".", signature);
}

bool is_right(const KeySet& keys, const std::string& token) {
  const auto jwt = parse_jwt(token);
  return jwt && keys.verify(*jwt);
}

TEST(Jwt, is_read_where_it_has_the_one_form) {
  const std::string token = token_of(R"({"alg":"RS256","kid":"k","typ":"at+jwt"})", R"({"a":1})");
  const auto jwt = parse_jwt(token);
  ASSERT_TRUE(jwt);
  EXPECT_EQ(jwt->head.algorithm, Algorithm::rs256);
  EXPECT_EQ(jwt->head.key_id, "k");
  EXPECT_EQ(jwt->claims.at("a"), 1);
  EXPECT_EQ(jwt->signature, "sig");
  EXPECT_EQ(jwt->signed_text, token.substr(0, token.rfind('.')));
}

TEST(Jwt, no_other_algorithm_is_taken_whatever_its_letters) {
  for (const char* name : {"none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "rs256",
                           "RS512", "ES384", "ES256K", "RS256 ", "dir"}) {
    EXPECT_FALSE(parse_jwt(token_of(base::cat(R"({"alg":")", name, "\"}")))) << name;
  }
  for (const char* head : {"{}", R"({"alg":null})", R"({"alg":["RS256"]})", R"({"alg":1})"}) {
    EXPECT_FALSE(parse_jwt(token_of(head))) << head;
  }
}

TEST(Jwt, refuses_what_two_readers_could_read_differently) {
  const std::string good = token_of(R"({"alg":"RS256"})");
  ASSERT_TRUE(parse_jwt(good));
  const std::string head = base::base64url(R"({"alg":"RS256"})");
  for (const std::string& token : {std::string(),
                                   std::string(".."),
                                   std::string("..."),
                                   good + ".",
                                   good + "=",
                                   "." + good,
                                   good.substr(0, good.rfind('.') + 1),
                                   good.substr(0, good.rfind('.')),
                                   head + ".e30",
                                   head + ".e30=.c2ln",
                                   head + ".e 30.c2ln",
                                   head + ".W10.c2ln",
                                   head + ".e31.c2ln",
                                   head + ".e30.c2l/",
                                   " " + good,
                                   token_of(R"({"alg":"none","alg":"RS256"})"),
                                   token_of(R"({"alg":"RS256"})", R"({"a":1,"a":2})"),
                                   token_of(R"({"alg":"RS256"})", "{}{}"),
                                   token_of(R"({"alg":"RS256"})", "[]"),
                                   token_of("\"RS256\"")}) {
    EXPECT_FALSE(parse_jwt(token)) << token;
  }
}

TEST(Jwt, refuses_what_it_does_not_understand) {
  for (const char* head : {R"({"alg":"RS256","crit":["b64"],"b64":false})",
                           R"({"alg":"RS256","crit":[]})", R"({"alg":"RS256","typ":"logout+jwt"})",
                           R"({"alg":"RS256","typ":1})", R"({"alg":"RS256","kid":""})",
                           R"({"alg":"RS256","kid":1})", R"({"alg":"RS256","kid":null})"}) {
    EXPECT_FALSE(parse_jwt(token_of(head))) << head;
  }
}

TEST(Jwt, is_bounded) {
  const std::string filling(kTokenBytesMax, 'x');
  EXPECT_FALSE(parse_jwt(token_of(R"({"alg":"RS256"})", base::cat(R"({"a":")", filling, "\"}"))));
  EXPECT_FALSE(
      parse_jwt(token_of(base::cat(R"({"alg":"RS256","kid":")", std::string(1000, 'k'), "\"}"))));
  const std::string deep(10'000, '[');
  EXPECT_FALSE(parse_jwt(token_of(R"({"alg":"RS256"})", base::cat(R"({"a":)", deep))));
}

TEST(KeySet, checks_the_signatures_of_every_algorithm) {
  const auto keys = KeySet::parse(key_set_of({rsa().jwk(), p256().jwk(), ed25519().jwk()}));
  ASSERT_TRUE(keys) << keys.error().message;
  for (const SigningKey* key : {&rsa(), &p256(), &ed25519()}) {
    EXPECT_TRUE(is_right(*keys, key->token(R"({"a":1})")));
  }
  EXPECT_TRUE(is_right(*keys, rsa().sign(R"({"alg":"PS256","kid":"r"})", "{}", Algorithm::ps256)));
}

TEST(KeySet, any_changed_bit_breaks_the_signature) {
  const auto keys = KeySet::parse(key_set_of({rsa().jwk(), p256().jwk(), ed25519().jwk()}));
  for (const SigningKey* key : {&rsa(), &p256(), &ed25519()}) {
    const std::string token = key->token(R"({"sub":"amy","groups":["a"]})");
    for (size_t at = 0; at < token.size(); at += 3) {
      std::string changed = token;
      changed[at] = changed[at] == 'A' ? 'B' : 'A';
      EXPECT_FALSE(is_right(*keys, changed)) << at;
    }
  }
}

TEST(KeySet, a_key_verifies_what_it_is_made_for_and_never_what_a_token_asks) {
  const auto keys = KeySet::parse(key_set_of({rsa().jwk(), p256().jwk(), ed25519().jwk()}));
  const auto claims = "{}";
  // RSA's two paddings are not each other's, and a key's id does not lend it to another algorithm.
  EXPECT_FALSE(
      is_right(*keys, rsa().sign(R"({"alg":"PS256","kid":"r"})", claims, Algorithm::rs256)));
  EXPECT_FALSE(
      is_right(*keys, rsa().sign(R"({"alg":"RS256","kid":"r"})", claims, Algorithm::ps256)));
  for (const char* kid : {"r", "e", "d"}) {
    for (const char* name : {"RS256", "PS256", "ES256", "EdDSA"}) {
      const std::string head = base::cat(R"({"alg":")", name, R"(","kid":")", kid, "\"}");
      const bool fits = (kid[0] == 'e') == (std::string_view(name) == "ES256") &&
                        (kid[0] == 'd') == (std::string_view(name) == "EdDSA");
      EXPECT_EQ(keys->has_key_for(*parse_jwt_head(token_of(head))), fits) << head;
      EXPECT_EQ(is_right(*keys, p256().sign(head, claims, Algorithm::es256)),
                kid[0] == 'e' && fits);
    }
  }
  const auto only_ps = KeySet::parse(key_set_of({rsa().jwk(R"(,"alg":"PS256")")}));
  EXPECT_FALSE(is_right(*only_ps, rsa().token(claims)));
}

TEST(KeySet, leaves_out_what_is_no_key_for_signatures) {
  const SigningKey weak(Kind::weak_rsa, "w");
  const std::string secret = R"({"kty":"oct","kid":"s","k":"c2VjcmV0","alg":"HS256"})";
  const std::string one = R"({"kty":"RSA","e":"AQ","n":")" + std::string(343, 'B') + "\"}";
  const std::string off_curve = R"({"kty":"EC","crv":"P-256","x":")" + std::string(43, 'A') +
                                R"(","y":")" + std::string(43, 'A') + "\"}";
  for (const std::string& key :
       {weak.jwk(), secret, one, off_curve, rsa().jwk(R"(,"use":"enc")"),
        rsa().jwk(R"(,"key_ops":["encrypt"])"), rsa().jwk(R"(,"alg":"HS256")"),
        rsa().jwk(R"(,"alg":"ES256")"), p256().jwk(R"(,"alg":"RS256")"), std::string("{}"),
        std::string(R"({"kty":"OKP","crv":"Ed25519","x":"AAAA"})"), std::string("1")}) {
    EXPECT_FALSE(KeySet::parse(key_set_of({key}))) << key;
    const auto mixed = KeySet::parse(key_set_of({key, p256().jwk()}));
    ASSERT_TRUE(mixed) << key;
    EXPECT_EQ(mixed->size(), 1U) << key;
  }
}

TEST(KeySet, refuses_what_is_no_set) {
  std::string many;
  for (size_t i = 0; i <= kKeysMax; ++i) {
    many += base::cat(many.empty() ? "" : ",", p256().jwk());
  }
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string(R"({"keys":{}})"),
        std::string(R"({"keys":[]})"), base::cat(R"({"keys":[],"keys":[)", p256().jwk(), "]}"),
        base::cat(R"({"keys":[)", many, "]}")}) {
    EXPECT_FALSE(KeySet::parse(text)) << text.substr(0, 60);
  }
}

TEST(KeySet, a_token_without_a_keys_id_is_checked_where_one_key_can_be_meant) {
  const SigningKey unnamed(Kind::p256, "");
  const auto one = KeySet::parse(key_set_of({unnamed.jwk(), rsa().jwk()}));
  EXPECT_TRUE(is_right(*one, unnamed.token("{}")));
  const auto two = KeySet::parse(key_set_of({unnamed.jwk(), p256().jwk()}));
  EXPECT_FALSE(is_right(*two, unnamed.token("{}")));
  const auto twins = KeySet::parse(key_set_of({p256().jwk(), p256().jwk()}));
  EXPECT_FALSE(is_right(*twins, p256().token("{}")));
}

// --- claims ------------------------------------------------------------------------------

struct Claims : ::testing::Test {
  Expected expected{.issuer = "https://issuer", .audiences = {"us", "me"}, .skew_ms = 60'000};

  // What it gives at second 1000, 0 where it is refused.
  int64_t checked(const std::string& claims) {
    const auto object = wire::json::parse_object(claims);
    return check_claims(*object, expected, 1'000'000).value_or(0);
  }
  static std::string with(const std::string& more) {
    return R"({"iss":"https://issuer","aud":"us",)" + more + "}";
  }
};

TEST_F(Claims, times_hold_to_the_second_with_the_skew_on_both_sides) {
  EXPECT_EQ(checked(with(R"("exp":1001)")), 1'061'000);
  EXPECT_EQ(checked(with(R"("exp":941)")), 1'001'000);
  EXPECT_EQ(checked(with(R"("exp":940.5)")), 1'000'500);
  EXPECT_EQ(checked(with(R"("exp":940)")), 0);
  EXPECT_NE(checked(with(R"("exp":2000,"nbf":1060,"iat":1060)")), 0);
  EXPECT_EQ(checked(with(R"("exp":2000,"nbf":1061)")), 0);
  EXPECT_EQ(checked(with(R"("exp":2000,"iat":1061)")), 0);
  expected.skew_ms = 0;
  EXPECT_EQ(checked(with(R"("exp":1000)")), 0);
  EXPECT_NE(checked(with(R"("exp":1001,"nbf":1000)")), 0);
}

TEST_F(Claims, times_that_are_none_are_refused) {
  for (const char* time : {"null", "\"2000\"", "-1", "1e300", "[2000]", "true", "99999999999999"}) {
    EXPECT_EQ(checked(with(base::cat(R"("exp":)", time))), 0) << time;
    EXPECT_EQ(checked(with(base::cat(R"("exp":2000,"nbf":)", time))), 0) << time;
    EXPECT_EQ(checked(with(base::cat(R"("exp":2000,"iat":)", time))), 0) << time;
  }
  EXPECT_EQ(checked(with(R"("sub":"amy")")), 0);
}

TEST_F(Claims, the_issuer_and_an_audience_are_exactly_those) {
  const std::string time = R"("exp":2000)";
  for (const char* issuer : {"https://issuer/", "https://Issuer", "http://issuer", "issuer", ""}) {
    EXPECT_EQ(checked(base::cat(R"({"iss":")", issuer, R"(","aud":"us",)", time, "}")), 0);
  }
  EXPECT_EQ(checked(base::cat(R"({"iss":["https://issuer"],"aud":"us",)", time, "}")), 0);
  EXPECT_NE(checked(base::cat(R"({"iss":"https://issuer","aud":["x","me"],)", time, "}")), 0);
  for (const char* audience : {"\"u\"", "\"US\"", "[]", "[\"x\"]", "null", "{}", "[[\"us\"]]"}) {
    EXPECT_EQ(checked(base::cat(R"({"iss":"https://issuer","aud":)", audience, ",", time, "}")), 0)
        << audience;
  }
  EXPECT_EQ(checked(base::cat(R"({"iss":"https://issuer",)", time, "}")), 0);
}

}  // namespace
}  // namespace oidc
