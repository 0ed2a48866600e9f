#include <gtest/gtest.h>

#include "oidc/claims.h"
#include "oidc/jwt.h"
#include "server/gateway_testing.h"

namespace server {
namespace {

struct SandboxIdentity : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};
  std::string box;

  SandboxIdentity() {
    EXPECT_EQ(gateway.call("PATCH", "/teams/default", R"({"lease_sec":86400})").status, 200);
    box = gateway.make_ready();
  }
  Reply as(const std::string& token, const std::string& method, const std::string& target,
           const std::string& body = "") {
    const std::string before = std::exchange(gateway.token, token);
    Reply reply = gateway.call(method, target, body);
    gateway.token = before;
    return reply;
  }
  std::string identity_of(const std::string& id) {
    const Reply reply = gateway.call("POST", "/sandboxes/" + id + "/identity-token", "{}");
    EXPECT_EQ(reply.status, 200) << reply.body;
    return oidc::text_claim(reply.json(), "token");
  }
  Reply exchange(const std::string& identity) {
    constexpr std::string_view kForm =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&"
        "subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&subject_token=";
    return gateway.call("POST", "/oauth/token", base::cat(kForm, identity),
                        "content-type: application/x-www-form-urlencoded\r\n");
  }
  std::string access_of(const std::string& id) {
    return oidc::text_claim(exchange(identity_of(id)).json(), "access_token");
  }
};

// Every row of the table: what a sandbox with a token of its own gets there.
TEST_F(SandboxIdentity, its_token_opens_itself_and_nothing_else) {
  const std::string own = access_of(box);
  const std::string other = gateway.make_ready();
  EXPECT_EQ(as(own, "GET", "/me").status, 200);
  for (const Route& route : routes()) {
    if (route.scope == service::Scope::open || route.scope == service::Scope::metrics) {
      continue;
    }
    std::string path(route.pattern);
    const bool is_of_sandbox = path.contains("/sandboxes/{id}");
    for (size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
      path.replace(at, path.find('}') - at + 1, at < 20 && is_of_sandbox ? other : "x");
    }
    const Reply reply = as(own, std::string(route.method), path);
    const bool is_list = route.method == "GET" && (path == "/me" || path.ends_with("/sandboxes"));
    if (is_list || path == "/ws-tickets") {
      EXPECT_EQ(reply.status, is_list ? 200 : 201) << path;
      EXPECT_FALSE(reply.body.contains(other)) << path;
    } else if (is_of_sandbox) {
      EXPECT_EQ(reply.status, 404) << route.method << " " << path;
    } else {
      EXPECT_EQ(reply.status, 403) << route.method << " " << path;
    }
  }
  EXPECT_EQ(as(own, "GET", "/sandboxes/" + box).status, 200);
  EXPECT_EQ(as(own, "PATCH", "/sandboxes/" + box, R"({"network":{"mode":"open"}})").status, 403);
}

TEST_F(SandboxIdentity, it_ends_with_time_and_with_the_sandbox) {
  const std::string own = access_of(box);
  ground.clock.advance(std::chrono::minutes(59));
  EXPECT_EQ(as(own, "GET", "/me").status, 200);
  ground.clock.advance(std::chrono::minutes(2));
  EXPECT_EQ(as(own, "GET", "/me").status, 401);
  const std::string another = gateway.make_ready();
  const std::string identity = identity_of(another);
  const std::string fresh = access_of(another);
  EXPECT_EQ(as(fresh, "GET", "/me").status, 200);
  EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + another + "?wait=10").status, 204);
  EXPECT_EQ(as(fresh, "GET", "/me").status, 401);
  EXPECT_EQ(exchange(identity).status, 400);
}

TEST_F(SandboxIdentity, a_ticket_of_its_own_is_no_more_than_its_token) {
  const std::string own = access_of(box);
  const std::string other = gateway.make_ready();
  for (const auto& [id, status] : {std::pair(other, 404), std::pair(box, 101)}) {
    const std::string ticket = oidc::text_claim(as(own, "POST", "/ws-tickets").json(), "ticket");
    ASSERT_FALSE(ticket.empty());
    const Reply reply = gateway.call_raw(base::cat(
        "GET /sandboxes/", id, "/terminal?ticket=", ticket,
        " HTTP/1.1\r\nhost: t\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"));
    EXPECT_EQ(reply.status, status) << reply.body;
  }
}

TEST_F(SandboxIdentity, a_token_for_nobody_is_one_for_this_gateway) {
  for (const char* body : {"", "{}", R"({"audience":null})", R"({"audience":""})"}) {
    const Reply reply = gateway.call("POST", "/sandboxes/" + box + "/identity-token", body);
    ASSERT_EQ(reply.status, 200) << body << reply.body;
    const auto jwt = oidc::parse_jwt(oidc::text_claim(reply.json(), "token"));
    ASSERT_TRUE(jwt.has_value());
    EXPECT_EQ(oidc::text_claim(jwt->claims, "aud"), oidc::text_claim(reply.json(), "issuer"));
    EXPECT_EQ(oidc::text_claim(reply.json(), "audience"), oidc::text_claim(reply.json(), "issuer"));
  }
}

TEST_F(SandboxIdentity, parameters_of_the_address_are_refused_as_oauth_does) {
  const Reply reply = gateway.call("POST", "/oauth/token?grant_type=x", "a=b",
                                   "content-type: application/x-www-form-urlencoded\r\n");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(oidc::text_claim(reply.json(), "error"), "invalid_request") << reply.body;
}

TEST_F(SandboxIdentity, refused_tokens_are_bounded) {
  int bounded = 0;
  for (int i = 0; i < service::TokenExchange::kRefusedPerSecond + 5; ++i) {
    const int status = exchange("a.b.c").status;
    bounded += status == 503 ? 1 : 0;
    EXPECT_TRUE(status == 503 || status == 400);
  }
  EXPECT_EQ(bounded, 5);
}

struct IdentityKeys : SandboxIdentity {
  std::vector<std::string> ids(std::string_view state) {
    std::vector<std::string> out;
    for (const auto& item : gateway.call("GET", "/identity/keys").json().at("items").as_array()) {
      if (item.at("state").as_string() == state) {
        out.emplace_back(item.at("id").as_string());
      }
    }
    return out;
  }
  std::string published() { return gateway.call("GET", "/.well-known/jwks.json").body; }
};

TEST_F(IdentityKeys, the_next_key_is_published_before_it_signs) {
  const auto signing = ids("signing");
  const auto next = ids("next");
  ASSERT_EQ(signing.size(), 1U);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_TRUE(published().contains(next.front()));
  EXPECT_FALSE(published().contains("\"d\""));
  const std::string old = identity_of(box);
  EXPECT_EQ(gateway.call("POST", "/identity/keys/rotate").status, 429);
  ground.clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(gateway.call("POST", "/identity/keys/rotate").status, 200);
  EXPECT_EQ(ids("signing"), next);
  EXPECT_EQ(ids("ended"), signing);
  EXPECT_EQ(exchange(old).status, 200);
  EXPECT_EQ(exchange(identity_of(box)).status, 200);
}

TEST_F(IdentityKeys, an_ended_key_goes_when_the_last_of_its_tokens_is_over) {
  const auto first = ids("signing").front();
  ground.clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(gateway.call("POST", "/identity/keys/rotate").status, 200);
  ground.clock.advance(std::chrono::minutes(61));
  EXPECT_EQ(gateway.call("POST", "/identity/keys/rotate").status, 200);
  EXPECT_TRUE(published().contains(first));  // clocks differ
  ground.clock.advance(std::chrono::minutes(15));
  EXPECT_EQ(gateway.call("POST", "/identity/keys/rotate").status, 200);
  EXPECT_FALSE(published().contains(first));
}

TEST(IdentityKeysOfSeveral, gateways_on_one_store_sign_with_the_same_key) {
  Ground ground;
  std::string signing;
  {
    TestGateway first(ground);
    signing = first.identity_keys.signer().id();
  }
  TestGateway second(ground);
  EXPECT_EQ(second.identity_keys.signer().id(), signing);
}

}  // namespace
}  // namespace server
