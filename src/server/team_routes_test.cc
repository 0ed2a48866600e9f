#include <gtest/gtest.h>

#include "server/gateway_testing.h"

namespace server {
namespace {

using wire::json::Array;

struct TeamRoutes : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};
  std::string admin = gateway.token;

  Reply as(const std::string& token, const std::string& method, const std::string& target,
           const std::string& body = "") {
    const std::string before = std::exchange(gateway.token, token);
    Reply reply = gateway.call(method, target, body);
    gateway.token = before;
    return reply;
  }
  // A token of that team; its secret.
  std::string token_of(const std::string& team, const std::string& more = "",
                       const std::string& scope = "member") {
    const Reply reply = gateway.call(
        "POST", "/tokens",
        base::cat(R"({"name":"t","team":")", team, R"(","scopes":[")", scope, "\"]", more, "}"));
    EXPECT_EQ(reply.status, 201) << reply.body;
    return reply.status == 201 ? std::string(reply.json().at("secret").as_string()) : "";
  }
  void make_team(const std::string& name, const std::string& more = "") {
    const Reply reply = gateway.call("POST", "/teams", R"({"name":")" + name + "\"" + more + "}");
    EXPECT_EQ(reply.status, 201) << reply.body;
  }
  std::string make_box(const std::string& token, const std::string& more = "") {
    const Reply reply =
        as(token, "POST", "/sandboxes?wait=10",
           base::cat(R"({"image":"demo:latest","cpus":1,"memory_mb":64)", more, "}"));
    EXPECT_EQ(reply.status, 201) << reply.body;
    return reply.status == 201 ? std::string(reply.json().at("id").as_string()) : "";
  }
  std::string id_of(const std::string& token) {
    return std::string(as(token, "GET", "/me").json().at("token").at("id").as_string());
  }
  // "a,b" of a list's field.
  std::string listed(const std::string& token, const std::string& target,
                     const std::string& field) {
    const Reply reply = as(token, "GET", target);
    std::string out;
    const auto object = reply.json();
    if (!object.contains("items")) {
      return reply.code();
    }
    for (const auto& item : object.at("items").as_array()) {
      out += base::cat(out.empty() ? "" : ",", std::string_view(item.at(field).as_string()));
    }
    return out;
  }
};

TEST_F(TeamRoutes, a_team_is_shown_as_it_was_given_and_taken_again_as_it_is_shown) {
  make_team("red", R"(,"quota":{"cpus":1.5,"sandboxes":3},"borrowing_limit":{"cpus":0},
    "image_prefixes":["debian","ghcr.io/red/"],"isolation":["container"],
    "network":{"mode":"none"},"members":[{"subject":"bob"},{"subject":"amy","role":"admin"}])");
  const Reply shown = gateway.call("GET", "/teams/red");
  const auto team = shown.json();
  EXPECT_EQ(team.at("quota").at("cpus"), 1.5);
  EXPECT_TRUE(team.at("quota").at("memory_mb").is_null());
  EXPECT_EQ(team.at("borrowing_limit").at("cpus"), 0);
  EXPECT_EQ(team.at("image_prefixes").at(0), "docker.io/library/debian");
  EXPECT_EQ(team.at("members").at(0).at("subject"), "amy");
  EXPECT_EQ(team.at("lease_sec"), 1800);
  EXPECT_EQ(gateway.call("PUT", "/teams/red", shown.body).body, shown.body);
  EXPECT_EQ(gateway.call("PATCH", "/teams/red", R"({"quota":{"cpus":null}})")
                .json()
                .at("quota")
                .at("sandboxes"),
            3);
  const auto put = gateway.call("PUT", "/teams/red", "{}").json();
  EXPECT_TRUE(put.at("quota").at("sandboxes").is_null());
  EXPECT_EQ(put.at("members").as_array().size(), 2U);
  EXPECT_EQ(gateway.call("PUT", "/teams/blue", "{}").status, 201);
}

TEST_F(TeamRoutes, bad_definitions_name_their_field_and_change_nothing) {
  struct Case {
    std::string body;
    std::string code;
    std::string field;
  };
  const std::string before = gateway.call("GET", "/teams?scope=all").body;
  for (const Case& bad : {
           Case{"[]", "malformed", ""},
           Case{"{}", "missing_field", "name"},
           Case{R"({"name":"Red"})", "invalid_field", "name"},
           Case{R"({"name":""})", "invalid_field", "name"},
           Case{R"({"name":"-a"})", "invalid_field", "name"},
           Case{R"({"name":"default"})", "conflict", ""},
           Case{R"({"name":"a","color":1})", "unknown_field", "color"},
           Case{R"({"name":"a","quota":{"cpu":1}})", "unknown_field", "quota.cpu"},
           Case{R"({"name":"a","quota":{"cpus":-1}})", "invalid_field", "quota.cpus"},
           Case{R"({"name":"a","quota":{"cpus":0.0001}})", "invalid_field", "quota.cpus"},
           Case{R"({"name":"a","quota":{"sandboxes":-1}})", "invalid_field", "quota.sandboxes"},
           Case{R"({"name":"a","max":{"cpus":0}})", "invalid_field", "max.cpus"},
           Case{R"({"name":"a","quota":{"cpus":0},"lending_limit":{"cpus":1}})", "invalid_field",
                "lending_limit.cpus"},
           Case{R"({"name":"a","quota":[]})", "invalid_field", "quota"},
           Case{R"({"name":"a","quota":{"cpus":1},"lending_limit":{"cpus":2}})", "invalid_field",
                "lending_limit.cpus"},
           Case{R"({"name":"a","max":{"storage_mb":100},"storage_mb":200})", "invalid_field",
                "storage_mb"},
           Case{R"({"name":"a","max":{"sandboxes":1}})", "unknown_field", "max.sandboxes"},
           Case{R"({"name":"a","lease_sec":0})", "invalid_field", "lease_sec"},
           Case{R"({"name":"a","isolation":[]})", "invalid_field", "isolation"},
           Case{R"({"name":"a","isolation":["vm","vm"]})", "invalid_field", "isolation"},
           Case{R"({"name":"a","isolation":["docker"]})", "invalid_field", "isolation"},
           Case{R"({"name":"a","network":{"mode":"closed"}})", "invalid_field", "network.mode"},
           Case{R"({"name":"a","image_prefixes":["x","x"]})", "invalid_field", "image_prefixes"},
           Case{R"({"name":"a","image_prefixes":["docker.io/x","x"]})", "", ""},
           Case{R"({"name":"b","members":[{"role":"member"}]})", "missing_field",
                "members[0].subject"},
           Case{R"({"name":"b","members":[{"subject":"a","role":"owner"}]})", "invalid_field",
                "members[0].role"},
           Case{R"({"name":"b","members":[{"subject":"a"},{"subject":"a"}]})", "invalid_field",
                "members"},
           Case{R"({"name":"b","members":[{"subject":"a b"}]})", "invalid_field",
                "members[0].subject"},
       }) {
    const Reply reply = gateway.call("POST", "/teams", bad.body);
    EXPECT_EQ(reply.code(), bad.code) << bad.body << reply.body;
    EXPECT_EQ(reply.field(), bad.field) << bad.body << reply.body;
  }
  gateway.call("DELETE", "/teams/a");
  EXPECT_EQ(gateway.call("GET", "/teams?scope=all").body, before);
}

TEST_F(TeamRoutes, a_set_of_teams_is_applied_whole_once_or_not_at_all) {
  const std::string set = R"({"teams":[{"name":"red","quota":{"cpus":2}},{"name":"blue"}]})";
  const auto dry = gateway.call("PUT", "/teams?dry_run=1", set).json();
  EXPECT_FALSE(dry.at("applied").as_bool());
  EXPECT_EQ(dry.at("changes").at(1).at("action"), "create");
  EXPECT_EQ(dry.at("changes").at(1).at("fields").at(0).at("field"), "quota.cpus");
  EXPECT_EQ(gateway.call("GET", "/teams/red").status, 404);
  EXPECT_TRUE(gateway.call("PUT", "/teams", set).json().at("changes_something").as_bool());
  EXPECT_FALSE(gateway.call("PUT", "/teams", set).json().at("changes_something").as_bool());
  struct Case {
    std::string body;
    std::string code;
    std::string field;
  };
  for (const Case& bad : {
           Case{"{}", "missing_field", "teams"},
           Case{R"({"teams":[{"name":"green"},{}]})", "missing_field", "teams[1].name"},
           Case{R"({"teams":[{"name":"green"},{"name":"green"}]})", "invalid_field",
                "teams[1].name"},
           Case{R"({"teams":[{"name":"green"},{"name":"red","quota":{"cpu":1}}]})", "unknown_field",
                "teams[1].quota.cpu"},
           Case{R"({"teams":[{"name":"green"}],"tokens":[]})", "unknown_field", "tokens"},
           Case{R"({"teams":[{"name":"green"},7]})", "invalid_field", "teams[1]"},
       }) {
    const Reply reply = gateway.call("PUT", "/teams", bad.body);
    EXPECT_EQ(reply.code(), bad.code) << bad.body;
    EXPECT_EQ(reply.field(), bad.field) << bad.body;
  }
  EXPECT_EQ(gateway.call("GET", "/teams/green").status, 404);
  const auto pruned =
      gateway.call("PUT", "/teams", R"({"teams":[{"name":"red"}],"prune":true})").json();
  EXPECT_EQ(pruned.at("changes").at(0).at("action"), "delete");
  EXPECT_EQ(listed(admin, "/teams", "name"), "default,red");
}

TEST_F(TeamRoutes, a_quota_is_not_lowered_below_its_use) {
  make_team("red");
  make_box(token_of("red"));
  const Reply low = gateway.call("PATCH", "/teams/red", R"({"quota":{"cpus":0.5}})");
  EXPECT_EQ(low.code(), "in_use");
  EXPECT_EQ(low.field(), "quota.cpus");
  const Reply set = gateway.call(
      "PUT", "/teams", R"({"teams":[{"name":"blue"},{"name":"red","quota":{"memory_mb":1}}]})");
  EXPECT_EQ(set.field(), "teams[1].quota.memory_mb");
  EXPECT_EQ(gateway.call("GET", "/teams/blue").status, 404);
  EXPECT_EQ(gateway.call("PATCH", "/teams/red", R"({"quota":{"cpus":1}})").status, 200);
}

TEST_F(TeamRoutes, a_quota_of_nothing_is_not_the_same_as_none) {
  make_team("red", R"(,"quota":{"cpus":0,"sandboxes":0},"borrowing_limit":{"sandboxes":2})");
  const auto team = gateway.call("GET", "/teams/red").json();
  EXPECT_EQ(team.at("quota").at("cpus"), 0);
  EXPECT_EQ(team.at("quota").at("sandboxes"), 0);
  EXPECT_TRUE(team.at("quota").at("memory_mb").is_null());
  const auto dry =
      gateway.call("PUT", "/teams?dry_run=true", R"({"teams":[{"name":"red"}]})").json();
  const auto& change = dry.at("changes").at(0).at("fields").at(0);
  EXPECT_EQ(change.at("field"), "quota.cpus");
  EXPECT_EQ(change.at("from"), 0);
  EXPECT_TRUE(change.at("to").is_null());
  // Nobody lends: it never gets anything.
  gateway.token = token_of("red");
  EXPECT_EQ(gateway.call("POST", "/sandboxes", R"({"image":"demo:latest","cpus":1,"memory_mb":64})")
                .code(),
            "quota_never");
}

TEST_F(TeamRoutes, a_team_in_use_stays) {
  make_team("red");
  const std::string token = token_of("red");
  const Reply held = gateway.call("DELETE", "/teams/red");
  EXPECT_EQ(held.code(), "in_use");
  EXPECT_EQ(held.json().at("error").at("details").at("tokens"), "1");
  const std::string box = make_box(token);
  gateway.call("DELETE", "/tokens/" + id_of(token));
  EXPECT_EQ(gateway.call("DELETE", "/teams/red").json().at("error").at("details").at("sandboxes"),
            "1");
  EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + box + "?wait=10").status, 204);
  EXPECT_EQ(gateway.call("DELETE", "/teams/red").status, 204);
  EXPECT_EQ(gateway.call("DELETE", "/teams/red").code(), "not_found");
  EXPECT_EQ(gateway.call("DELETE", "/teams/default").code(), "conflict");
  // A later team of that name begins with nothing.
  make_team("red");
  EXPECT_EQ(listed(token_of("red"), "/sandboxes?all=true", "id"), "");
}

TEST_F(TeamRoutes, bad_tokens_are_refused) {
  make_team("red", R"(,"members":[{"subject":"amy"}])");
  struct Case {
    std::string body;
    std::string code;
    std::string field;
  };
  for (const Case& bad : {
           Case{R"({"name":"t"})", "missing_field", "scopes"},
           Case{R"({"name":"t","scopes":[]})", "invalid_field", "scopes"},
           Case{R"({"name":"t","scopes":["*"]})", "invalid_field", "scopes"},
           Case{R"({"name":"t","scopes":["root"]})", "invalid_field", "scopes"},
           Case{R"({"name":"t","scopes":["read","read"]})", "invalid_field", "scopes"},
           Case{R"({"scopes":["read"]})", "missing_field", "name"},
           Case{R"({"name":"t","scopes":["admin"]})", "invalid_field", "scopes"},
           Case{R"({"name":"t","scopes":["read"],"role":"god"})", "invalid_field", "role"},
           Case{R"({"name":"t","scopes":["read"],"team":"none"})", "not_found", ""},
           Case{R"({"name":"t","scopes":["read"],"team":"red","subject":"bob"})", "invalid_field",
                "subject"},
           Case{R"({"name":"t","scopes":["read"],"team":"red","subject":"amy","role":"admin"})",
                "invalid_field", "role"},
           Case{R"({"name":"amy","scopes":["read"],"team":"red"})", "invalid_field", "name"},
           Case{R"({"name":"t","scopes":["read"],"every_team":true})", "invalid_field",
                "every_team"},
           Case{R"({"name":"t","scopes":["read"],"expires_in_sec":0})", "invalid_field",
                "expires_in_sec"},
           Case{R"({"name":"t","scopes":["read"],"expires_at":"2020-01-01T00:00:00Z"})",
                "invalid_field", "expires_at"},
           Case{R"({"name":"t","scopes":["read"],"expires_in_sec":1,"expires_at":"x"})",
                "invalid_field", "expires_at"},
           Case{R"({"name":"t","scopes":["read"],"hash":"x"})", "unknown_field", "hash"},
       }) {
    const Reply reply = gateway.call("POST", "/tokens", bad.body);
    EXPECT_EQ(reply.code(), bad.code) << bad.body << reply.body;
    EXPECT_EQ(reply.field(), bad.field) << bad.body << reply.body;
  }
  EXPECT_EQ(listed(admin, "/tokens?scope=all", "name"), "bootstrap");
}

TEST_F(TeamRoutes, a_token_is_shown_once_and_told_when_it_was_used) {
  make_team("red");
  const std::string token = token_of("red");
  const std::string id = id_of(token);
  const Reply shown = gateway.call("GET", "/tokens/" + id);
  EXPECT_FALSE(shown.body.contains(token));
  EXPECT_FALSE(shown.body.contains("hash"));
  EXPECT_FALSE(shown.json().at("last_used_at").is_null());
  const std::string first(shown.json().at("last_used_at").as_string());
  ground.clock.advance(std::chrono::seconds(59));
  as(token, "GET", "/me");
  EXPECT_EQ(gateway.call("GET", "/tokens/" + id).json().at("last_used_at").as_string(), first);
  ground.clock.advance(std::chrono::seconds(1));
  as(token, "GET", "/me");
  EXPECT_NE(gateway.call("GET", "/tokens/" + id).json().at("last_used_at").as_string(), first);
}

TEST_F(TeamRoutes, an_expired_and_a_revoked_token_are_refused) {
  make_team("red");
  const std::string expiring = token_of("red", R"(,"expires_in_sec":60)");
  const std::string revoked = token_of("red");
  EXPECT_EQ(as(expiring, "GET", "/me").status, 200);
  ground.clock.advance(std::chrono::seconds(60));
  EXPECT_EQ(as(expiring, "GET", "/me").code(), "unauthenticated");
  EXPECT_EQ(as(revoked, "DELETE", "/tokens/" + id_of(revoked)).status, 204);
  EXPECT_EQ(as(revoked, "GET", "/me").code(), "unauthenticated");
}

TEST_F(TeamRoutes, a_ticket_dies_with_its_token) {
  make_team("red");
  const std::string token = token_of("red");
  const std::string box = make_box(token);
  const Reply made = as(token, "POST", "/ws-tickets");
  const std::string ticket(made.json().at("ticket").as_string());
  const std::string id = id_of(token);
  EXPECT_EQ(gateway.call("DELETE", "/tokens/" + id).status, 204);
  const Reply reply = gateway.call_raw(base::cat(
      "GET /sandboxes/", box, "/terminal?ticket=", ticket,
      " HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
      "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"));
  EXPECT_EQ(reply.status, 401);
}

TEST_F(TeamRoutes, scopes_and_roles_say_what_a_token_may_do) {
  make_team("red");
  const std::string box = make_box(token_of("red"));
  const std::string reader = token_of("red", "", "read");
  const std::string member = token_of("red");
  const std::string boss = token_of("red", R"(,"role":"admin")", "admin");
  const std::string meter = token_of("default", "", "metrics");
  const std::string run = "/sandboxes/" + box + "/run";
  const std::string command = R"({"argv":["true"]})";
  EXPECT_EQ(as(reader, "GET", "/sandboxes/" + box).status, 200);
  EXPECT_EQ(as(reader, "GET", "/sandboxes/" + box + "/events").status, 200);
  EXPECT_EQ(as(reader, "GET", "/sandboxes/" + box + "/files?path=/").code(), "forbidden");
  EXPECT_EQ(as(reader, "POST", run, command).code(), "forbidden");
  EXPECT_EQ(as(reader, "POST", "/sandboxes", "{}").code(), "forbidden");
  EXPECT_EQ(as(reader, "DELETE", "/sandboxes/" + box).code(), "forbidden");
  EXPECT_EQ(as(member, "POST", run, command).status, 200);
  EXPECT_EQ(as(member, "PUT", "/teams/red/members/x", R"({"role":"member"})").code(), "forbidden");
  EXPECT_EQ(as(member, "POST", "/tokens", R"({"name":"x","scopes":["read"]})").code(), "forbidden");
  EXPECT_EQ(as(boss, "POST", run, command).status, 200);
  EXPECT_EQ(as(boss, "PUT", "/teams/red/members/x", R"({"role":"member"})").status, 200);
  EXPECT_EQ(as(boss, "PATCH", "/teams/red", R"({"quota":{"cpus":9}})").code(), "forbidden");
  EXPECT_EQ(as(boss, "PATCH", "/teams/red", R"({"members":[]})").status, 200);
  EXPECT_EQ(as(boss, "POST", "/teams", R"({"name":"x"})").code(), "forbidden");
  EXPECT_EQ(as(boss, "POST", "/tokens", R"({"name":"x","scopes":["metrics"]})").code(),
            "forbidden");
  EXPECT_EQ(as(boss, "GET", "/metrics").code(), "forbidden");
  EXPECT_EQ(as(meter, "GET", "/metrics").status, 200);
  EXPECT_EQ(as(meter, "GET", "/sandboxes").code(), "forbidden");
}

TEST_F(TeamRoutes, a_member_who_goes_loses_what_the_membership_gave) {
  make_team("red", R"(,"members":[{"subject":"amy","role":"admin"}])");
  const std::string token = token_of("red", R"(,"subject":"amy","role":"admin")", "admin");
  EXPECT_EQ(as(token, "PUT", "/teams/red/members/bob", R"({"role":"member"})").status, 200);
  gateway.call("PUT", "/teams/red/members/amy", R"({"role":"member"})");
  EXPECT_EQ(as(token, "PUT", "/teams/red/members/bob", R"({"role":"member"})").code(), "forbidden");
  EXPECT_EQ(gateway.call("DELETE", "/teams/red/members/amy").status, 204);
  EXPECT_EQ(as(token, "GET", "/me").status, 401);
  gateway.call("PUT", "/teams/red/members/amy", R"({"role":"admin"})");
  EXPECT_EQ(as(token, "GET", "/me").status, 401);
}

TEST_F(TeamRoutes, a_member_of_several_teams_says_which) {
  make_team("red", R"(,"members":[{"subject":"amy"}])");
  make_team("blue", R"(,"members":[{"subject":"amy","role":"admin"}])");
  make_team("white");
  const std::string token = token_of("red", R"(,"subject":"amy","every_team":true)", "member");
  const std::string here = make_box(token);
  ground.clock.advance(std::chrono::seconds(1));
  const std::string there = make_box(token, R"(,"team":"blue")");
  EXPECT_EQ(as(token, "GET", "/sandboxes/" + there).json().at("team"), "blue");
  EXPECT_EQ(as(token, "POST", "/sandboxes/" + there + "/run", R"({"argv":["true"]})").status, 200);
  EXPECT_EQ(listed(token, "/sandboxes", "id"), there + "," + here);
  EXPECT_EQ(listed(token, "/sandboxes?team=blue", "id"), there);
  EXPECT_EQ(listed(token, "/sandboxes?team=white", "id"), "not_found");
  EXPECT_EQ(listed(token, "/teams", "name"), "blue,red");
  EXPECT_EQ(as(token, "POST", "/sandboxes",
               R"({"image":"demo:latest","cpus":1,"memory_mb":64,"team":"white"})")
                .code(),
            "not_found");
  EXPECT_EQ(as(token, "GET", "/me").json().at("teams").as_array().size(), 2U);
  EXPECT_EQ(as(token, "DELETE", "/sandboxes/" + there + "?wait=10").status, 204);
  EXPECT_EQ(as(token, "GET", "/sandboxes/" + there + "?all=true").status, 200);
  EXPECT_EQ(as(token, "GET", "/sandboxes/" + there + "/events").status, 200);
}

TEST_F(TeamRoutes, other_teams_rows_come_only_with_scope_all_and_bare) {
  make_team("red");
  make_team("blue");
  const std::string red = token_of("red");
  const std::string blue = token_of("blue");
  const std::string box = make_box(red, R"(,"labels":{"task":"hush"})");
  EXPECT_EQ(listed(blue, "/sandboxes", "id"), "");
  EXPECT_EQ(listed(blue, "/sandboxes?team=red", "id"), "not_found");
  const Reply bare = as(blue, "GET", "/sandboxes?scope=all");
  EXPECT_EQ(bare.json().at("items").at(0).at("id").as_string(), box);
  EXPECT_FALSE(bare.body.contains("hush"));
  EXPECT_EQ(listed(blue, "/sandboxes?scope=all&team=red", "id"), box);
  EXPECT_EQ(listed(blue, "/sandboxes?scope=all&label=task=hush", "id"), "");
  EXPECT_EQ(listed(blue, "/sandboxes?scope=all&q=hush", "id"), "");
  EXPECT_EQ(listed(red, "/sandboxes?scope=all&q=hush", "id"), box);
  EXPECT_EQ(listed(admin, "/sandboxes?scope=all&label=task=hush", "id"), box);
  EXPECT_TRUE(as(admin, "GET", "/sandboxes?scope=all").body.contains("hush"));
  EXPECT_EQ(listed(blue, "/teams?scope=all", "name"), "blue,default,red");
  EXPECT_FALSE(
      as(blue, "GET", "/teams?scope=all").json().at("items").at(2).as_object().contains("members"));
  EXPECT_EQ(as(blue, "GET", "/sandboxes?scope=mine").field(), "scope");
}

TEST_F(TeamRoutes, a_platform_admin_acts_in_every_team) {
  make_team("red");
  const std::string box = make_box(token_of("red"));
  EXPECT_EQ(gateway.call("POST", "/sandboxes/" + box + "/run", R"({"argv":["true"]})").status, 200);
  EXPECT_EQ(gateway.call("PUT", "/teams/red/registries/a.example", "{}").status, 200);
  EXPECT_EQ(gateway.call("PUT", "/teams/none/registries/a.example", "{}").status, 404);
  EXPECT_EQ(gateway.call("GET", "/teams/red/registries/a.example").status, 200);
  EXPECT_EQ(gateway.call("GET", "/teams/default/registries/a.example").status, 404);
  EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + box + "?wait=10").status, 204);
  gateway.run(gateway.audit.flush());
  auto statement = gateway.store->database().prepare(
      "SELECT COUNT(*) FROM audit_logs WHERE team = 'red' AND event = 'command.run'");
  ASSERT_TRUE(statement->step().value());
  EXPECT_EQ(statement->get_int(0), 1);
}

TEST_F(TeamRoutes, a_create_is_measured_against_its_team) {
  make_team("red", R"(,"max":{"cpus":2,"memory_mb":100,"storage_mb":200},"storage_mb":100,
    "image_prefixes":["demo"],"lease_sec":60,"max_lifetime_sec":120,"network":{"mode":"none"})");
  const std::string token = token_of("red");
  const auto create = [&](const std::string& fields) {
    return as(token, "POST", "/sandboxes?wait=10", "{" + fields + "}");
  };
  struct Case {
    std::string body;
    std::string code;
  };
  for (const Case& bad : {
           Case{R"("image":"demo:latest","cpus":2.5,"memory_mb":64)", "quota_never"},
           Case{R"("image":"demo:latest","cpus":1,"memory_mb":101)", "quota_never"},
           Case{R"("image":"demo:latest","cpus":1,"memory_mb":64,"storage_mb":201)", "quota_never"},
           Case{R"("image":"demon:latest","cpus":1,"memory_mb":64)", "image_not_allowed"},
           Case{R"("image":"ghcr.io/demo","cpus":1,"memory_mb":64)", "image_not_allowed"},
           Case{R"("image":"demo:latest","cpus":1,"memory_mb":64,"lease_sec":61)", "invalid_field"},
       }) {
    EXPECT_EQ(create(bad.body).code(), bad.code) << bad.body;
  }
  const auto row = create(R"("image":"demo:latest","cpus":2,"memory_mb":64)").json();
  EXPECT_EQ(row.at("storage_mb"), 100);
  EXPECT_EQ(row.at("lease_sec"), 60);
  EXPECT_EQ(row.at("network").at("mode"), "none");
  // Nor does it see what it may not use.
  const auto names = [&](const std::string& by) {
    return as(by, "GET", "/images", "").json().at("items").as_array().size();
  };
  make_team("blue", R"(,"image_prefixes":["ghcr.io/blue"])");
  EXPECT_EQ(names(token), 1U);
  EXPECT_EQ(names(token_of("blue")), 0U);
  EXPECT_EQ(as(token, "GET", "/images/demo:latest", "").status, 200);
  EXPECT_EQ(as(token_of("blue"), "GET", "/images/demo:latest", "").code(), "not_found");
}

TEST_F(TeamRoutes, teams_and_tokens_outlive_the_process) {
  make_team("red", R"(,"members":[{"subject":"amy"}])");
  const std::string token = token_of("red", R"(,"subject":"amy")");
  gateway.run(gateway.journal.flush());
  const auto teams = *service::Teams::load(*gateway.store);
  EXPECT_EQ(teams.find("red")->members.size(), 1U);
  EXPECT_EQ(gateway.store->list_tokens()->size(), 2U);
  for (const auto& kept : *gateway.store->list_tokens()) {
    EXPECT_NE(kept.hash, token);
  }
}

TEST_F(TeamRoutes, lists_have_pages) {
  for (const std::string name : {"a", "b", "c"}) {
    ground.clock.advance(std::chrono::seconds(1));  // no two tokens are equally old
    make_team(name);
    token_of(name);
  }
  const auto first = gateway.call("GET", "/teams?limit=2").json();
  EXPECT_EQ(first.at("next_cursor"), "b");
  EXPECT_EQ(listed(admin, "/teams?cursor=b", "name"), "c,default");
  const auto tokens = gateway.call("GET", "/tokens?scope=all&limit=3").json();
  const std::string cursor(tokens.at("next_cursor").as_string());
  EXPECT_EQ(listed(admin, "/tokens?scope=all&cursor=" + cursor, "name"), "bootstrap");
  EXPECT_EQ(gateway.call("GET", "/tokens?cursor=x").field(), "cursor");
}

}  // namespace
}  // namespace server
