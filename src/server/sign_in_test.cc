#include <gtest/gtest.h>

#include "oidc/issuer_testing.h"
#include "oidc/url.h"
#include "server/gateway_testing.h"
#include "server/session_cookie.h"
#include "service/browser_sign_in.h"
#include "service/device_sign_in.h"

namespace server {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using oidc::SigningKey;

constexpr const char* kIssuer = "https://issuer";
constexpr const char* kOwnPage = "x-sandbox-session: 1\r\n";

// A gateway that takes the tokens of an issuer, and that issuer.
struct SignIns : ::testing::Test {
  Ground ground;
  oidc::FakeHttp http;
  SigningKey key{SigningKey::Kind::ed25519, "k"};
  TestGateway gateway{ground};
  oidc::Issuer issuer{
      ground.loop, ground.clock, ground.log, http, {.url = kIssuer, .client_id = "us"}};
  service::SignIn sign_in{gateway.context, issuer, settings()};
  service::BrowserSignIn browsers{gateway.context, sign_in};
  service::DeviceSignIn devices{sign_in};
  std::string admin = gateway.token;

  static service::SignInSettings settings() {
    return {.issuer = kIssuer,
            .client_id = "us",
            .client_secret = {},
            .audiences = {"us"},
            .public_url = "https://us.example",
            .ca_file = {},
            .groups = {{.group = "red devs", .team = "red"},
                       {.group = "red leads", .team = "red", .role = model::Role::admin},
                       {.group = "blues", .team = "blue"},
                       {.group = "ops", .team = "default", .role = model::Role::admin},
                       {.group = "ghosts", .team = "nowhere"}}};
  }
  SignIns() {
    gateway.access.use(&sign_in);
    gateway.application.people = &sign_in;
    gateway.application.browsers = &browsers;
    gateway.application.devices = &devices;
    publish({key.jwk()});
    for (const char* team : {"red", "blue"}) {
      EXPECT_EQ(gateway.call("POST", "/teams", base::cat(R"({"name":")", team, "\"}")).status, 201);
    }
  }
  ~SignIns() override { gateway.run(issuer.stop()); }

  void publish(std::initializer_list<std::string> keys) {
    http.answer(base::cat(kIssuer, "/.well-known/openid-configuration"), R"({
      "issuer":"https://issuer","jwks_uri":"https://issuer/keys",
      "authorization_endpoint":"https://issuer/auth?tenant=1",
      "token_endpoint":"https://issuer/token","userinfo_endpoint":"https://issuer/me",
      "end_session_endpoint":"https://issuer/end",
      "device_authorization_endpoint":"https://issuer/device"})");
    http.answer("https://issuer/keys", oidc::key_set_of(keys));
  }
  [[nodiscard]] int64_t now_sec() const { return base::to_ms(ground.clock.wall()) / 1000; }
  [[nodiscard]] std::string claims(const std::string& more,
                                   const std::string& email = "amy@example.org") const {
    return base::cat(R"({"iss":"https://issuer","aud":"us","sub":"1","email":")", email,
                     R"(","email_verified":true,"exp":)", now_sec() + 600, more, "}");
  }
  Reply as(const std::string& bearer, const std::string& method, const std::string& target,
           const std::string& body = "") {
    const std::string before = std::exchange(gateway.token, bearer);
    Reply reply = gateway.call(method, target, body);
    gateway.token = before;
    return reply;
  }
  Reply me(const std::string& claim_set) { return as(key.token(claim_set), "GET", "/me"); }
  // Without Authorization.
  Reply browse(const std::string& method, const std::string& target, const std::string& headers) {
    return gateway.call_raw(
        base::cat(method, " ", target, " HTTP/1.1\r\nhost: us.example\r\ncontent-length: 0\r\n",
                  headers, "\r\n"),
        method);
  }

  Task<void> load_records() {
    const auto loaded = co_await sign_in.records().load();
    EXPECT_TRUE(loaded.has_value());
  }

  // --- a browser's walk ---------------------------------------------------------------------
  struct Browser {
    std::string attempt;  // "name=value"
    std::string location;
    std::string state;
    std::string nonce;
  };
  static std::string parameter(const std::string& url, const std::string& name) {
    const size_t at = url.find(name + "=") + name.size() + 1;
    return url.substr(at, url.find('&', at) - at);
  }
  static std::string cookie_of(const Reply& reply, std::string_view name) {
    for (const auto& header : reply.headers) {
      if (header.name == "set-cookie" && header.value.starts_with(base::cat(name, "="))) {
        return header.value;
      }
    }
    return "";
  }
  static std::string pair_of(const std::string& cookie) {
    return cookie.substr(0, cookie.find(';'));
  }
  Browser begin(const std::string& query = "") {
    gateway.run(issuer.fetch_again());
    const Reply reply = browse("GET", "/login" + query, "");
    EXPECT_EQ(reply.status, 303) << reply.body;
    const std::string location = reply.header("location");
    return {.attempt = pair_of(cookie_of(reply, "__Host-sandbox_login")),
            .location = location,
            .state = parameter(location, "state"),
            .nonce = parameter(location, "nonce")};
  }
  void grant(const std::string& claim_set) {
    http.answer("https://issuer/token",
                base::cat(R"({"id_token":")", key.token(claim_set), R"(","access_token":"a"})"));
  }
  Reply finish(const Browser& browser, const std::string& query) {
    return browse("GET", "/login/callback?" + query,
                  base::cat("cookie: ", browser.attempt, "\r\n"));
  }
  // "name=value" of a session.
  std::string signed_in(const std::string& more = R"(,"groups":["red devs"])") {
    const Browser browser = begin();
    grant(claims(base::cat(R"(,"nonce":")", browser.nonce, "\"", more)));
    const Reply reply = finish(browser, base::cat("code=c&state=", browser.state));
    EXPECT_EQ(reply.status, 303) << reply.body;
    return pair_of(cookie_of(reply, "__Host-sandbox_session"));
  }
  Reply with_session(const std::string& pair, const std::string& more = kOwnPage) {
    return browse("GET", "/me", base::cat("cookie: other=1; ", pair, "\r\n", more));
  }
};

// --- tokens of the issuer --------------------------------------------------------------------

TEST_F(SignIns, groups_and_members_lists_say_what_somebody_may_do) {
  const auto dev = me(claims(R"(,"groups":["red devs","unknown"])")).json();
  EXPECT_EQ(dev.at("subject"), "amy@example.org");
  EXPECT_EQ(dev.at("team"), "red");
  EXPECT_EQ(dev.at("role"), "member");
  EXPECT_EQ(dev.at("platform_admin"), false);
  EXPECT_TRUE(dev.at("token").is_null());
  EXPECT_EQ(dev.at("sign_in").at("by"), "token");
  EXPECT_EQ(dev.at("sign_in").at("groups").as_array().size(), 1U);
  EXPECT_EQ(me(claims(R"(,"groups":["red leads","red devs"])")).json().at("role"), "admin");
  const auto both = me(claims(R"(,"groups":["blues","red leads"])")).json();
  EXPECT_EQ(both.at("team"), "red");  // the operator's order
  EXPECT_EQ(both.at("teams").as_array().size(), 2U);
  const auto ops = me(claims(R"(,"groups":"ops")")).json();
  EXPECT_EQ(ops.at("platform_admin"), true);
  EXPECT_EQ(me(claims(R"(,"groups":["ghosts"])")).code(), "forbidden");
  const auto groups = gateway.call("GET", "/teams/red/members").json().at("groups").as_array();
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups.at(1).at("group"), "red leads");
  EXPECT_EQ(groups.at(1).at("role"), "admin");
  EXPECT_EQ(me(claims("")).code(), "forbidden");
  gateway.call("PUT", "/teams/blue/members/amy@example.org", R"({"role":"admin"})");
  EXPECT_EQ(me(claims("")).json().at("team"), "blue");
  EXPECT_EQ(me(claims("")).json().at("role"), "admin");
  gateway.call("DELETE", "/teams/blue/members/amy@example.org");
  EXPECT_EQ(me(claims("")).code(), "forbidden");
}

TEST_F(SignIns, a_person_makes_and_owns_sandboxes_and_is_in_the_audit_log) {
  const std::string bearer = key.token(claims(R"(,"groups":["red devs"])"));
  const Reply made = as(bearer, "POST", "/sandboxes?wait=10",
                        R"({"image":"demo:latest","cpus":1,"memory_mb":64})");
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.json().at("owner"), "amy@example.org");
  EXPECT_EQ(made.json().at("team"), "red");
  const auto rows = as(bearer, "GET", "/audit-logs?event=sandbox.create").json();
  EXPECT_EQ(rows.at("items").at(0).at("caller"), "amy@example.org") << rows;
  EXPECT_EQ(as(bearer, "GET", "/metrics").code(), "forbidden");
  EXPECT_EQ(as(bearer, "POST", "/tokens", R"({"name":"x","scopes":["read"]})").code(), "forbidden");
  const std::string other = key.token(claims(R"(,"groups":["blues"])", "bob@example.org"));
  EXPECT_EQ(as(other, "GET", "/sandboxes/" + std::string(made.json().at("id").as_string())).code(),
            "not_found");
}

TEST_F(SignIns, what_is_not_the_issuers_word_is_401) {
  const std::string groups = R"(,"groups":["red devs"])";
  const SigningKey stranger(SigningKey::Kind::ed25519, "k");
  EXPECT_EQ(as(key.token(claims(groups)), "GET", "/me").status, 200);
  EXPECT_EQ(as(stranger.token(claims(groups)), "GET", "/me").code(), "unauthenticated");
  for (
      const std::string& claim_set :
      {std::string("{}"),
       R"({"iss":"https://evil","aud":"us","email":"a@b","email_verified":true,"exp":99999999999})"s,
       base::cat(R"({"iss":"https://issuer","aud":"them","email":"a@b","exp":)", now_sec() + 9,
                 "}"),
       base::cat(R"({"iss":"https://issuer","aud":"us","email":"a@b","email_verified":false)",
                 groups, R"(,"exp":)", now_sec() + 9, "}"),
       base::cat(R"({"iss":"https://issuer","aud":"us","email":"a@b")", groups, R"(,"exp":)",
                 now_sec() + 9, "}"),
       base::cat(R"({"iss":"https://issuer","aud":"us","sub":"1")", groups, R"(,"exp":)",
                 now_sec() + 9, "}"),
       claims(groups, "a b@example.org"), claims(groups, ""),
       claims(groups + R"(,"nbf":)" + base::cat(now_sec() + 61)), claims(groups + R"(,"exp":1)")}) {
    const Reply reply = me(claim_set);
    EXPECT_EQ(reply.code(), "unauthenticated") << claim_set;
    EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
  }
}

TEST_F(SignIns, a_token_ends_with_its_time_though_it_was_checked_before) {
  const std::string bearer = key.token(claims(R"(,"groups":["red devs"])"));
  EXPECT_EQ(as(bearer, "GET", "/me").status, 200);
  ground.clock.advance(659s);
  EXPECT_EQ(as(bearer, "GET", "/me").status, 200);
  ground.clock.advance(2s);
  EXPECT_EQ(as(bearer, "GET", "/me").code(), "unauthenticated");
}

TEST_F(SignIns, a_key_that_the_issuer_took_back_opens_nothing_more) {
  const SigningKey next(SigningKey::Kind::p256, "next");
  const std::string old_token = key.token(claims(R"(,"groups":["red devs"])"));
  const std::string new_token = next.token(claims(R"(,"groups":["red devs"])"));
  EXPECT_EQ(as(old_token, "GET", "/me").status, 200);
  publish({next.jwk()});
  EXPECT_EQ(as(new_token, "GET", "/me").code(), "unauthenticated");  // asked a moment ago
  ground.clock.advance(oidc::Issuer::kFetchPause);
  EXPECT_EQ(as(new_token, "GET", "/me").status, 200);
  EXPECT_EQ(as(old_token, "GET", "/me").code(), "unauthenticated");
}

TEST_F(SignIns, without_the_issuers_keys_a_token_is_neither_right_nor_wrong) {
  http.forget("https://issuer/keys");
  const Reply reply = me(claims(R"(,"groups":["red devs"])"));
  EXPECT_EQ(reply.code(), "unavailable");
  EXPECT_FALSE(reply.header("retry-after").empty());
  EXPECT_EQ(gateway.call("GET", "/me").status, 200);  // tokens of ours do not need it
  EXPECT_EQ(as("a.b.c", "GET", "/me").code(), "unauthenticated");
}

TEST_F(SignIns, a_websocket_takes_the_token_too) {
  const std::string bearer = key.token(claims(R"(,"groups":["red devs"])"));
  const auto open = [&](const std::string& token) {
    return gateway
        .call_raw(base::cat("GET /sandboxes/sbx-none/terminal HTTP/1.1\r\nhost: us.example\r\n"
                            "connection: upgrade\r\nupgrade: websocket\r\n"
                            "sec-websocket-version: 13\r\n"
                            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                            "sec-websocket-protocol: sandbox.v1, bearer.",
                            token, "\r\n\r\n"))
        .code();
  };
  EXPECT_EQ(open(bearer), "not_found");
  EXPECT_EQ(open(bearer + "x"), "unauthenticated");
}

// --- browsers --------------------------------------------------------------------------------

TEST_F(SignIns, a_browser_is_led_to_the_issuer_with_what_protects_the_way) {
  const Browser browser = begin("?return_to=/sandboxes%3Fteam%3Dred");
  EXPECT_TRUE(browser.location.starts_with("https://issuer/auth?tenant=1&response_type=code&"));
  EXPECT_EQ(parameter(browser.location, "client_id"), "us");
  EXPECT_EQ(parameter(browser.location, "redirect_uri"), "https%3A//us.example/login/callback");
  EXPECT_EQ(parameter(browser.location, "code_challenge_method"), "S256");
  EXPECT_EQ(parameter(browser.location, "code_challenge").size(), 43U);
  EXPECT_EQ(parameter(browser.location, "scope"), "openid%20email%20profile");
  const Reply reply = browse("GET", "/login", "");
  EXPECT_NE(parameter(reply.header("location"), "state"), browser.state);
  EXPECT_NE(parameter(reply.header("location"), "nonce"), browser.nonce);
  const std::string cookie = cookie_of(reply, "__Host-sandbox_login");
  EXPECT_TRUE(cookie.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure")) << cookie;
  EXPECT_FALSE(cookie.contains(parameter(reply.header("location"), "state")));
}

TEST_F(SignIns, it_ends_with_a_session_that_only_our_own_page_can_use) {
  const Browser browser = begin("?return_to=/sandboxes");
  grant(claims(base::cat(R"(,"groups":["red devs"],"nonce":")", browser.nonce, "\"")));
  const Reply ended = finish(browser, base::cat("code=c&state=", browser.state));
  ASSERT_EQ(ended.status, 303) << ended.body;
  EXPECT_EQ(ended.header("location"), "/sandboxes");
  EXPECT_EQ(ended.header("cache-control"), "no-store");
  const std::string cookie = cookie_of(ended, "__Host-sandbox_session");
  EXPECT_TRUE(cookie.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict; Secure"));
  EXPECT_TRUE(cookie_of(ended, "__Host-sandbox_login").contains("=; Path=/; Max-Age=0;"));
  EXPECT_FALSE(cookie.contains("amy"));
  const std::string pair = pair_of(cookie);
  const Reply shown = with_session(pair);
  ASSERT_EQ(shown.status, 200) << shown.body;
  EXPECT_EQ(shown.json().at("subject"), "amy@example.org");
  EXPECT_EQ(shown.json().at("sign_in").at("by"), "session");
  EXPECT_EQ(with_session(pair, "").code(), "unauthenticated");
  EXPECT_EQ(with_session(pair, "x-sandbox-session: 0\r\n").code(), "unauthenticated");
  for (const char* site : {"cross-site", "same-site", "none"}) {
    EXPECT_EQ(with_session(pair, base::cat(kOwnPage, "sec-fetch-site: ", site, "\r\n")).code(),
              "unauthenticated");
  }
  EXPECT_EQ(with_session(pair, base::cat(kOwnPage, "sec-fetch-site: same-origin\r\n")).status, 200);
  EXPECT_EQ(with_session(base::cat(pair, "; ", pair)).code(), "unauthenticated");
  EXPECT_EQ(with_session(pair + "x").code(), "unauthenticated");
  EXPECT_EQ(with_session("sandbox_session=" + pair.substr(pair.find('=') + 1)).code(),
            "unauthenticated");  // without the prefix anybody could have set it
  const auto rows = gateway.call("GET", "/audit-logs?scope=all&event=login").json();
  EXPECT_EQ(rows.at("items").at(0).at("caller"), "amy@example.org") << rows;
}

TEST_F(SignIns, a_session_ends_with_its_time_or_its_teams) {
  http.answer("https://issuer/me", R"({"sub":"1"})");
  const Browser stranger = begin();
  grant(claims(base::cat(R"(,"nonce":")", stranger.nonce, "\"")));
  const Reply none = finish(stranger, base::cat("code=c&state=", stranger.state));
  EXPECT_EQ(none.code(), "forbidden");
  EXPECT_EQ(none.header("set-cookie"), "");
  gateway.call("PUT", "/teams/blue/members/amy@example.org", R"({"role":"member"})");
  const std::string member = signed_in("");
  EXPECT_EQ(with_session(member).json().at("team"), "blue");
  gateway.call("DELETE", "/teams/blue/members/amy@example.org");
  EXPECT_EQ(with_session(member).code(), "forbidden");
  const std::string dev = signed_in();
  ground.clock.advance(3599s);
  EXPECT_EQ(with_session(dev).status, 200);
  ground.clock.advance(2s);
  EXPECT_EQ(with_session(dev).code(), "unauthenticated");
}

TEST_F(SignIns, only_the_browser_that_began_can_end_a_sign_in_and_only_in_time) {
  const Browser browser = begin();
  const Browser victim = begin();
  grant(claims(base::cat(R"(,"groups":["red devs"],"nonce":")", browser.nonce, "\"")));
  const std::string query = base::cat("code=c&state=", browser.state);
  EXPECT_EQ(finish(victim, query).code(), "unauthenticated");
  EXPECT_EQ(browse("GET", "/login/callback?" + query, "").code(), "unauthenticated");
  EXPECT_EQ(
      finish({.attempt = browser.attempt + "A", .location = {}, .state = {}, .nonce = {}}, query)
          .code(),
      "unauthenticated");
  for (const char* wrong : {"code=c", "code=c&state=", "code=c&state=x", "state=x&error=denied"}) {
    EXPECT_EQ(finish(browser, wrong).code(), "unauthenticated") << wrong;
  }
  EXPECT_EQ(finish(browser, base::cat("state=", browser.state)).code(), "invalid_field");
  EXPECT_EQ(finish(browser, query + "&iss=https://evil").code(), "unauthenticated");
  EXPECT_EQ(http.asked("https://issuer/token"), 0);
  EXPECT_EQ(finish(browser, query + "&iss=https://issuer&session_state=x").status, 303);
  ground.clock.advance(601s);
  EXPECT_EQ(finish(browser, query).code(), "unauthenticated");
}

TEST_F(SignIns, the_id_token_must_be_of_this_sign_in_and_for_this_client) {
  for (const std::string& more : {std::string(), R"(,"nonce":"other")"s, R"(,"nonce":null)"s}) {
    const Browser browser = begin();
    grant(claims(R"(,"groups":["red devs"])" + more));
    EXPECT_EQ(finish(browser, base::cat("code=c&state=", browser.state)).code(), "unauthenticated");
  }
  const Browser browser = begin();
  grant(claims(base::cat(R"(,"azp":"them","groups":["red devs"],"nonce":")", browser.nonce, "\"")));
  EXPECT_EQ(finish(browser, base::cat("code=c&state=", browser.state)).code(), "unauthenticated");
  http.answer("https://issuer/token", R"({"access_token":"a"})");
  EXPECT_EQ(finish(browser, base::cat("code=c&state=", browser.state)).code(), "unauthenticated");
  http.forget("https://issuer/token");
  EXPECT_EQ(finish(browser, base::cat("code=c&state=", browser.state)).code(), "unavailable");
}

TEST_F(SignIns, claims_that_the_token_lacks_are_asked_of_the_issuer) {
  const auto grant_bare = [&](const Browser& browser) {
    grant(base::cat(R"({"iss":"https://issuer","aud":"us","sub":"1","exp":)", now_sec() + 9,
                    R"(,"nonce":")", browser.nonce, "\"}"));
  };
  const std::string person =
      R"("email":"amy@example.org","email_verified":true,"groups":["red devs"])";
  Browser browser = begin();
  grant_bare(browser);
  http.answer("https://issuer/me", R"({"sub":"1",)" + person + "}");
  EXPECT_EQ(finish(browser, base::cat("code=c&state=", browser.state)).status, 303);
  browser = begin();
  grant_bare(browser);
  http.answer("https://issuer/me", R"({"sub":"2",)" + person + "}");
  EXPECT_EQ(finish(browser, base::cat("code=c&state=", browser.state)).code(), "unauthenticated");
}

TEST_F(SignIns, another_gateway_with_the_same_key_goes_on_where_one_began) {
  const Browser browser = begin();
  grant(claims(base::cat(R"(,"groups":["red devs"],"nonce":")", browser.nonce, "\"")));
  oidc::Issuer its_issuer(ground.loop, ground.clock, ground.log, http,
                          {.url = kIssuer, .client_id = "us"});
  service::SignIn its_sign_in(gateway.context, its_issuer, settings());
  service::BrowserSignIn another(gateway.context, its_sign_in);
  gateway.run(its_issuer.fetch_again());
  gateway.application.browsers = &another;
  const Reply ended = finish(browser, base::cat("code=c&state=", browser.state));
  ASSERT_EQ(ended.status, 303) << ended.body;
  gateway.application.browsers = &browsers;
  gateway.run(load_records());  // as it does when it hears of what another one wrote
  EXPECT_EQ(with_session(pair_of(cookie_of(ended, "__Host-sandbox_session"))).status, 200);
  gateway.run(its_issuer.stop());
}

TEST_F(SignIns, it_leads_to_no_place_of_others) {
  gateway.run(issuer.fetch_again());
  for (const char* place : {"https://evil.example", "//evil.example", "/%5Cevil.example", "x", "",
                            "/a%0d%0aset-cookie:x=1", "/%20", "javascript:alert(1)"}) {
    EXPECT_EQ(browse("GET", base::cat("/login?return_to=", place), "").code(), "invalid_field")
        << place;
  }
}

TEST_F(SignIns, signing_out_takes_the_cookie_back_and_needs_our_own_page) {
  const std::string pair = signed_in();
  const std::string cookie = base::cat("cookie: ", pair, "\r\n");
  EXPECT_EQ(browse("POST", "/logout", cookie).code(), "unauthenticated");
  EXPECT_EQ(browse("GET", "/logout", cookie + kOwnPage).code(), "method_not_allowed");
  const Reply reply = browse("POST", "/logout", cookie + kOwnPage);
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(cookie_of(reply, "__Host-sandbox_session").contains("=; Path=/; Max-Age=0;"));
  EXPECT_EQ(reply.json().at("end_session_url"),
            "https://issuer/end?client_id=us&post_logout_redirect_uri=https%3A//us.example/");
  EXPECT_EQ(browse("POST", "/logout", kOwnPage).status, 200);
}

TEST_F(SignIns, a_session_that_was_ended_opens_nothing_whoever_has_a_copy) {
  const std::string laptop = signed_in();
  ground.clock.advance(1s);
  const std::string phone = signed_in();
  const auto list = [&](const std::string& pair) {
    return browse("GET", "/sign-ins", base::cat("cookie: ", pair, "\r\n", kOwnPage)).json();
  };
  const auto rows = list(laptop).at("items").as_array();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.at(0).at("current"), false);  // the newest first
  EXPECT_EQ(rows.at(1).at("current"), true);
  EXPECT_EQ(rows.at(1).at("kind"), "browser");
  EXPECT_EQ(rows.at(1).at("subject"), "amy@example.org");
  const std::string of_phone(rows.at(0).at("id").as_string());
  const auto end = [&](const std::string& what, const std::string& pair) {
    return browse("DELETE", "/sign-ins" + what, base::cat("cookie: ", pair, "\r\n", kOwnPage));
  };
  EXPECT_EQ(end("/" + of_phone, laptop).status, 204);
  EXPECT_EQ(with_session(phone).code(), "unauthenticated");
  EXPECT_EQ(with_session(laptop).status, 200);
  EXPECT_EQ(end("/" + of_phone, laptop).code(), "not_found");
  // Signing out ends a copy of the cookie too.
  const std::string copy = signed_in();
  EXPECT_EQ(browse("POST", "/logout", base::cat("cookie: ", copy, "\r\n", kOwnPage)).status, 200);
  EXPECT_EQ(with_session(copy).code(), "unauthenticated");
  const std::string other = signed_in();
  EXPECT_EQ(end("", laptop).json().at("ended"), 2);
  EXPECT_EQ(with_session(laptop).code(), "unauthenticated");
  EXPECT_EQ(with_session(other).code(), "unauthenticated");
}

TEST_F(SignIns, sign_ins_of_others_are_for_admins_of_the_platform) {
  const std::string amy = signed_in();
  const Browser browser = begin();
  grant(claims(base::cat(R"(,"nonce":")", browser.nonce, R"(","groups":["blues"])"),
               "bob@example.org"));
  const Reply ended = finish(browser, base::cat("code=c&state=", browser.state));
  const std::string bob = pair_of(cookie_of(ended, "__Host-sandbox_session"));
  const auto as_bob = [&](const std::string& method, const std::string& target) {
    return browse(method, target, base::cat("cookie: ", bob, "\r\n", kOwnPage));
  };
  const auto all = as(admin, "GET", "/sign-ins?scope=all").json().at("items").as_array();
  ASSERT_EQ(all.size(), 2U);
  const auto of_amy = as(admin, "GET", "/sign-ins?subject=amy@example.org").json();
  const std::string id(of_amy.at("items").at(0).at("id").as_string());
  EXPECT_EQ(as_bob("GET", "/sign-ins?scope=all").code(), "forbidden");
  EXPECT_EQ(as_bob("GET", "/sign-ins?subject=amy@example.org").code(), "forbidden");
  EXPECT_EQ(as_bob("DELETE", "/sign-ins?subject=amy@example.org").code(), "forbidden");
  EXPECT_EQ(as_bob("DELETE", "/sign-ins/" + id).code(), "not_found");
  EXPECT_EQ(as_bob("GET", "/sign-ins").json().at("items").as_array().size(), 1U);
  EXPECT_EQ(as(admin, "DELETE", "/sign-ins").code(), "invalid_field");
  EXPECT_EQ(as(admin, "DELETE", "/sign-ins?subject=amy@example.org").json().at("ended"), 1);
  EXPECT_EQ(with_session(amy).code(), "unauthenticated");
  EXPECT_EQ(with_session(bob).status, 200);
  // A token of that name is not the person.
  const auto token = as(admin, "POST", "/tokens",
                        R"({"name":"x","scopes":["admin"],"team":"blue",)"
                        R"("subject":"bob@example.org","role":"admin"})");
  if (token.status == 201) {
    const std::string secret(token.json().at("secret").as_string());
    EXPECT_EQ(as(secret, "GET", "/sign-ins").code(), "forbidden");
  }
}

TEST_F(SignIns, a_page_at_a_time_and_no_more_than_a_hundred) {
  for (int i = 0; i < 101; ++i) {
    ground.clock.advance(1s);
    signed_in();
  }
  const auto first = as(admin, "GET", "/sign-ins?scope=all&limit=60").json();
  EXPECT_EQ(first.at("items").as_array().size(), 60U);
  const std::string cursor(first.at("next_cursor").as_string());
  const auto second = as(admin, "GET", "/sign-ins?scope=all&limit=60&cursor=" + cursor).json();
  EXPECT_EQ(second.at("items").as_array().size(), 40U);
  EXPECT_TRUE(second.at("next_cursor").is_null());
  EXPECT_EQ(as(admin, "GET", "/sign-ins?scope=all&cursor=x").code(), "invalid_field");
}

TEST_F(SignIns, a_ticket_of_somebody_who_signed_in_stands_for_them) {
  const std::string pair = signed_in();
  const auto made =
      browse("POST", "/ws-tickets", base::cat("cookie: ", pair, "\r\n", kOwnPage)).json();
  const std::string ticket(made.at("ticket").as_string());
  const auto open = [&](const std::string& secret) {
    return gateway
        .call_raw(base::cat("GET /sandboxes/sbx-none/terminal?ticket=", secret,
                            " HTTP/1.1\r\nhost: us.example\r\nconnection: upgrade\r\n"
                            "upgrade: websocket\r\nsec-websocket-version: 13\r\n"
                            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
        .code();
  };
  EXPECT_EQ(open(ticket), "not_found");  // which sandbox: the caller is let in
  EXPECT_EQ(open(ticket), "unauthenticated");
}

// --- programs without a browser ---------------------------------------------------------------

TEST_F(SignIns, a_person_signs_a_program_in_on_another_machine) {
  gateway.run(issuer.fetch_again());
  http.answer("https://issuer/device", R"({"device_code":"d","user_code":"WDJB-MJHT",
    "verification_uri":"https://issuer/type","expires_in":600,"interval":2})");
  const auto begun = gateway.call("POST", "/login/device").json();
  EXPECT_EQ(begun.at("user_code"), "WDJB-MJHT");
  EXPECT_EQ(begun.at("verification_uri"), "https://issuer/type");
  EXPECT_EQ(begun.at("interval_sec"), 2);
  const std::string ask =
      base::cat(R"({"attempt":")", std::string_view(begun.at("attempt").as_string()), "\"}");
  http.answer("https://issuer/token", R"({"error":"authorization_pending"})", 400);
  EXPECT_EQ(gateway.call("POST", "/login/device/token", ask).status, 202);
  http.answer("https://issuer/token", R"({"error":"access_denied"})", 400);
  EXPECT_EQ(gateway.call("POST", "/login/device/token", ask).code(), "unauthenticated");
  grant(claims(R"(,"groups":["red devs"])"));
  const auto ended = gateway.call("POST", "/login/device/token", ask).json();
  EXPECT_EQ(ended.at("subject"), "amy@example.org");
  const std::string token(ended.at("token").as_string());
  const auto shown = as(token, "GET", "/me").json();
  EXPECT_EQ(shown.at("team"), "red");
  EXPECT_EQ(shown.at("sign_in").at("by"), "session");
  // A program's session is no browser's, and the other way round.
  EXPECT_EQ(with_session("__Host-sandbox_session=" + token).code(), "unauthenticated");
  const std::string pair = signed_in();
  EXPECT_EQ(as("person." + pair.substr(pair.find('=') + 1), "GET", "/me").code(),
            "unauthenticated");
  EXPECT_EQ(as(token + "A", "GET", "/me").code(), "unauthenticated");
  ground.clock.advance(601s);
  EXPECT_EQ(gateway.call("POST", "/login/device/token", ask).code(), "unauthenticated");
  EXPECT_EQ(as(token, "GET", "/me").status, 200);
  ground.clock.advance(3600s);
  EXPECT_EQ(as(token, "GET", "/me").code(), "unauthenticated");
}

TEST_F(SignIns, a_device_is_shown_only_what_a_terminal_may_show) {
  gateway.run(issuer.fetch_again());
  for (const char* answer :
       {R"({"device_code":"d","user_code":"\u001b[2J","verification_uri":"https://issuer/type"})",
        R"({"device_code":"d","user_code":"X","verification_uri":"https://issuer/\u001b[2J"})",
        R"({"device_code":"d","user_code":"X","verification_uri":"javascript:1"})",
        R"({"device_code":"d","user_code":"","verification_uri":"https://issuer/type"})",
        R"({"user_code":"X","verification_uri":"https://issuer/type"})", "{}", "<html>"}) {
    http.answer("https://issuer/device", answer);
    EXPECT_EQ(gateway.call("POST", "/login/device").code(), "unavailable") << answer;
  }
  EXPECT_EQ(gateway.call("POST", "/login/device/token", R"({"attempt":"x"})").code(),
            "unauthenticated");
  EXPECT_EQ(gateway.call("POST", "/login/device/token", "{}").code(), "missing_field");
}

TEST_F(SignIns, who_begins_sign_ins_all_the_time_is_told_to_wait) {
  gateway.run(issuer.fetch_again());
  http.answer("https://issuer/device", R"({"device_code":"d","user_code":"X",
    "verification_uri":"https://issuer/type"})");
  for (int i = 0; i < oidc::Issuer::kAsksInSecondMax; ++i) {
    EXPECT_EQ(gateway.call("POST", "/login/device").status, 200);
  }
  EXPECT_EQ(gateway.call("POST", "/login/device").code(), "overloaded");
  ground.clock.advance(1s);
  EXPECT_EQ(gateway.call("POST", "/login/device").status, 200);
}

TEST_F(SignIns, where_it_is_not_configured_there_is_no_sign_in) {
  gateway.application.people = nullptr;
  gateway.application.browsers = nullptr;
  gateway.application.devices = nullptr;
  gateway.access.use(static_cast<service::SignIn*>(nullptr));
  EXPECT_EQ(gateway.call("POST", "/login/device").code(), "not_found");
  EXPECT_EQ(gateway.call("GET", "/sign-ins?scope=all").code(), "not_found");
  EXPECT_EQ(browse("GET", "/login", "").code(), "not_found");
  EXPECT_EQ(browse("POST", "/logout", kOwnPage).code(), "not_found");
  EXPECT_EQ(me(claims(R"(,"groups":["red devs"])")).code(), "unauthenticated");
}

}  // namespace
}  // namespace server
