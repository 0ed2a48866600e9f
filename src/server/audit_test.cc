#include <gtest/gtest.h>

#include <set>

#include "server/gateway_testing.h"
#include "wire/audit_chain.h"

namespace server {
namespace {

using namespace std::chrono_literals;

struct AuditLog : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};
  std::string id = gateway.make_ready(R"(,"env":{"KEY":"hush-create"})");

  std::vector<wire::json::Object> rows(const std::string& query = "") {
    const Reply reply = gateway.call("GET", "/sandboxes/" + id + "/audit-logs" + query);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_FALSE(reply.body.contains("hush")) << reply.body;
    std::vector<wire::json::Object> out;
    for (const auto& row : reply.json().at("items").as_array()) {
      out.push_back(row.as_object());
    }
    return out;
  }
  // Of one event, oldest first.
  std::vector<wire::json::Object> of(const std::string& event) {
    auto out = rows("?event=" + event);
    std::ranges::reverse(out);
    return out;
  }
  std::vector<store::AuditRow> all_rows() {
    gateway.run(gateway.audit.flush());
    std::vector<store::AuditRow> out;
    auto statement = gateway.store->database().prepare(
        "SELECT event, team, sandbox_id, details FROM audit_logs ORDER BY id");
    while (*statement->step()) {
      out.push_back({.team = std::string(statement->get_text(1)),
                     .sandbox = std::string(statement->get_text(2)),
                     .event = std::string(statement->get_text(0)),
                     .details_json = std::string(statement->get_text(3))});
    }
    return out;
  }
};

TEST_F(AuditLog, a_create_has_its_row_with_what_was_asked_for) {
  const auto made = of("sandbox.create");
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].at("caller").as_string(), "admin");
  EXPECT_EQ(made[0].at("sandbox").as_string(), id);
  EXPECT_EQ(made[0].at("details").at("memory_mb").as_int64(), 64);
}

TEST_F(AuditLog, a_run_has_its_arguments_and_its_end_but_no_environment_and_no_input) {
  gateway.call("POST", "/sandboxes/" + id + "/run",
               R"({"argv":["false"],"env":{"K":"hush-env"},"stdin":"hush-stdin","cwd":"/tmp"})");
  gateway.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["echo"],"colour":1})");
  const auto runs = of("command.run");
  ASSERT_EQ(runs.size(), 2U);
  const auto& details = runs[0].at("details").as_object();
  EXPECT_EQ(details.at("argv").as_array().at(0).as_string(), "false");
  EXPECT_EQ(details.at("cwd").as_string(), "/tmp");
  EXPECT_EQ(details.at("exit_code").as_int64(), 1);
  EXPECT_EQ(details.at("status").as_int64(), 200);
  EXPECT_TRUE(details.contains("duration_ms"));
  EXPECT_EQ(runs[1].at("details").at("status").as_int64(), 422);
  EXPECT_EQ(runs[1].at("details").at("error").as_string(), "unknown_field");
}

TEST_F(AuditLog, files_have_their_path_and_size) {
  gateway.call("PUT", "/sandboxes/" + id + "/files?path=/tmp/a%20b&mode=600", "hush-body");
  gateway.call("GET", "/sandboxes/" + id + "/files?path=/tmp/%ff");
  const auto written = of("file.write");
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].at("details").at("path").as_string(), "/tmp/a b");
  EXPECT_EQ(written[0].at("details").at("bytes").as_int64(), 9);
  EXPECT_EQ(of("file.read").size(), 1U);
}

TEST_F(AuditLog, a_delete_is_readable_afterwards) {
  gateway.call("DELETE", "/sandboxes/" + id + "?wait=10");
  EXPECT_EQ(gateway.state(id), "deleted");
  const auto deleted = of("sandbox.delete");
  ASSERT_EQ(deleted.size(), 1U);
  EXPECT_EQ(deleted[0].at("details").at("status").as_int64(), 204);
}

TEST_F(AuditLog, a_lease_that_ran_out_is_the_gateways_own_row) {
  ground.clock.advance(1801s);
  gateway.lifecycle.leases().check_due();
  const auto expired = of("sandbox.expire");
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_TRUE(expired[0].at("caller").is_null());
  EXPECT_EQ(expired[0].at("details").at("reason").as_string(), "lease_expired");
}

TEST_F(AuditLog, pages_do_not_miss_or_repeat_a_row) {
  for (int i = 0; i < 5; ++i) {
    gateway.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})");
  }
  std::vector<int64_t> seen;
  std::string cursor;
  do {
    const auto page = gateway.call("GET", "/sandboxes/" + id + "/audit-logs?limit=2" + cursor);
    for (const auto& row : page.json().at("items").as_array()) {
      seen.push_back(row.at("id").as_int64());
    }
    const auto object = page.json();
    const auto& next = object.at("next_cursor");
    cursor = next.is_null() ? "" : "&cursor=" + std::string(next.as_string());
  } while (!cursor.empty());
  EXPECT_EQ(seen.size(), 6U);
  EXPECT_TRUE(std::ranges::is_sorted(seen, std::greater<>{}));
}

TEST_F(AuditLog, filters_are_checked) {
  const std::string path = "/sandboxes/" + id + "/audit-logs";
  for (const std::string_view field : {"from", "to", "limit", "cursor"}) {
    const Reply reply = gateway.call("GET", base::cat(path, "?", field, "=x"));
    EXPECT_EQ(reply.code(), "invalid_field") << field;
    EXPECT_EQ(reply.field(), field);
  }
  EXPECT_EQ(gateway.call("GET", path + "?colour=x").code(), "unknown_field");
  EXPECT_EQ(gateway.call("GET", "/sandboxes/sbx-none/audit-logs").code(), "not_found");
  EXPECT_TRUE(rows("?from=2030-01-01T00:00:00Z").empty());
  EXPECT_FALSE(rows("?from=2026-01-01T00:00:00%2B00:00&to=2030-01-01T00:00:00Z").empty());
}

TEST_F(AuditLog, calls_without_a_valid_token_are_rows_of_a_bounded_number) {
  const std::string bad =
      "DELETE /sandboxes/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hush\r\n\r\n";
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(gateway.call_raw(bad, "DELETE").status, 401);
  }
  ground.clock.advance(1s);
  gateway.call_raw(bad, "DELETE");
  std::vector<store::AuditRow> denied;
  for (const auto& row : all_rows()) {
    if (row.event == "access.denied") {
      denied.push_back(row);
    }
  }
  ASSERT_EQ(denied.size(), 6U);
  EXPECT_EQ(denied[0].team, "");
  EXPECT_TRUE(denied[0].details_json.contains("\"path\":\"/sandboxes/x\""));
  EXPECT_FALSE(denied[0].details_json.contains("hush"));
  EXPECT_TRUE(denied[5].details_json.contains("\"left_out\":15"));
}

TEST_F(AuditLog, what_a_team_has_is_a_row_without_a_sandbox) {
  gateway.call("PUT", "/teams/default/registries/127.0.0.1:5000", R"({"password":"hush"})");
  gateway.call("DELETE", "/images/none");
  const auto rows = all_rows();
  ASSERT_GE(rows.size(), 2U);
  const auto& put = rows[rows.size() - 2];
  EXPECT_EQ(put.event, "registry.put");
  EXPECT_EQ(put.sandbox, "");
  EXPECT_TRUE(put.details_json.contains("\"host\":\"127.0.0.1:5000\""));
  EXPECT_FALSE(put.details_json.contains("hush"));
  EXPECT_EQ(rows.back().event, "image.delete");
  EXPECT_TRUE(rows.back().details_json.contains("not_found"));
}

TEST_F(AuditLog, what_was_recorded_is_written_when_the_gateway_stops) {
  {
    TestGateway other(ground);
    other.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["echo","last words"]})");
  }
  EXPECT_EQ(of("command.run").size(), 1U);
}

TEST_F(AuditLog, a_row_has_its_team_token_result_and_duration) {
  gateway.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})");
  gateway.call("GET", "/sandboxes/" + id + "/files?path=/none");
  const auto run = of("command.run").at(0);
  EXPECT_EQ(run.at("team").as_string(), "default");
  EXPECT_TRUE(run.at("token").as_string().starts_with("tok-"));
  EXPECT_EQ(run.at("status").as_int64(), 200);
  EXPECT_TRUE(run.at("error").is_null());
  EXPECT_GE(run.at("duration_ms").as_int64(), 0);
}

TEST_F(AuditLog, the_teams_list_has_what_is_of_no_sandbox_too) {
  gateway.call("PUT", "/teams/default/registries/127.0.0.1:5000", R"({"password":"hush"})");
  gateway.call("DELETE", "/sandboxes/sbx-none");
  const auto list = [this](const std::string& query) {
    const Reply reply = gateway.call("GET", "/audit-logs" + query);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_FALSE(reply.body.contains("hush"));
    return reply.json().at("items").as_array();
  };
  EXPECT_EQ(list("").size(), 3U);
  EXPECT_EQ(list("?scope=all").size(), 3U);
  EXPECT_EQ(list("?team=other").size(), 0U);
  EXPECT_EQ(list("?result=error").at(0).at("error").as_string(), "not_found");
  EXPECT_EQ(list("?event=registry.put&caller=admin").size(), 1U);
  EXPECT_EQ(list("?text=127.0.0.1:5000").size(), 1U);
  EXPECT_EQ(list("?sandbox=" + id).size(), 1U);
  EXPECT_EQ(list("?result=ok&until=2026-01-01T00:00:00Z").size(), 0U);
}

TEST_F(AuditLog, the_teams_list_checks_its_parameters) {
  for (const std::string_view query :
       {"from=x", "until=x", "limit=0", "cursor=x", "result=fine", "format=xml", "scope=mine"}) {
    const Reply reply = gateway.call("GET", base::cat("/audit-logs?", query));
    EXPECT_EQ(reply.code(), "invalid_field") << query;
  }
  EXPECT_EQ(gateway.call("GET", "/audit-logs?colour=x").code(), "unknown_field");
}

TEST_F(AuditLog, who_is_no_admin_sees_the_own_team_only) {
  gateway.access.add({.id = "tok-ann",
                      .team = "default",
                      .subject = "ann",
                      .scopes = {"member"},
                      .hash = service::token_hash("member-token")});
  const auto call = [this](const std::string& target) {
    return gateway.call_raw(base::cat("GET ", target,
                                      " HTTP/1.1\r\nhost: x\r\nauthorization: Bearer "
                                      "member-token\r\n\r\n"));
  };
  EXPECT_EQ(call("/audit-logs").status, 200);
  EXPECT_EQ(call("/audit-logs?team=default").status, 200);
  EXPECT_EQ(call("/audit-logs?team=other").code(), "not_found");
  EXPECT_EQ(call("/audit-logs?scope=all").code(), "forbidden");
  EXPECT_EQ(call("/audit-logs?scope=all&format=jsonl").code(), "forbidden");
  EXPECT_EQ(call("/activity?scope=all").code(), "forbidden");
  EXPECT_EQ(call("/audit-logs/head").status, 200);
}

TEST_F(AuditLog, the_export_is_the_whole_chain) {
  for (int i = 0; i < 1100; ++i) {
    gateway.audit.record({.team = "default", .subject = "x"}, {.event = "command.run"});
  }
  const Reply head = gateway.call("GET", "/audit-logs/head");
  const Reply reply = gateway.call("GET", "/audit-logs?scope=all&format=jsonl");
  EXPECT_EQ(reply.header("content-type"), "application/x-ndjson");
  wire::AuditVerifier verifier(
      model::AuditHead{.id = head.json().at("id").as_int64(),
                       .hash = std::string(head.json().at("hash").as_string())});
  for (const std::string_view line : base::split(reply.body, '\n')) {
    if (!line.empty()) {
      const auto added = verifier.add(line);
      ASSERT_TRUE(added.has_value()) << added.error().message;
    }
  }
  const auto report = verifier.finish();
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->rows, 1101);
}

TEST_F(AuditLog, what_a_killed_gateway_had_begun_has_its_row) {
  gateway.audit.begin({.team = "default", .subject = "ann"},
                      {.event = "command.run", .sandbox = id, .details = {{"argv", "x"}}},
                      "req-killed");
  {
    TestGateway next(ground);
    const auto found = next.call("GET", "/audit-logs?event=command.run").json();
    ASSERT_EQ(found.at("items").as_array().size(), 1U);
    const auto& row = found.at("items").at(0);
    EXPECT_EQ(row.at("caller").as_string(), "ann");
    EXPECT_TRUE(row.at("details").at("unfinished").as_bool());
    EXPECT_EQ(row.at("details").at("request_id").as_string(), "req-killed");
    EXPECT_TRUE(row.at("status").is_null());
  }
  TestGateway third(ground);
  EXPECT_EQ(third.call("GET", "/audit-logs?event=command.run").json().at("items").as_array().size(),
            1U);
}

TEST_F(AuditLog, activity_is_by_caller_and_step) {
  gateway.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})");
  ground.clock.advance(1h);
  const auto answer = gateway.call("GET", "/activity?step=3600").json();
  const auto& items = answer.at("items").as_array();
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0].at("subject").as_string(), "admin");
  EXPECT_EQ(items[0].at("total").at("commands").as_int64(), 1);
  EXPECT_EQ(items[0].at("total").at("creates").as_int64(), 1);
  EXPECT_EQ(items[0].at("total").at("sandbox_seconds").as_double(), 3600);
  EXPECT_EQ(items[0].at("series").as_array().size(), 1U);
  for (const std::string_view query : {"step=61", "step=0", "from=x", "from=2030-01-01T00:00:00Z",
                                       "from=2020-01-01T00:00:00Z&step=60"}) {
    EXPECT_EQ(gateway.call("GET", base::cat("/activity?", query)).code(), "invalid_field") << query;
  }
}

TEST(AuditText, is_bounded_and_utf8) {
  const std::string euros = [] {
    std::string out;
    for (int i = 0; i < 5000; ++i) {
      out += "\u20AC";
    }
    return out;
  }();
  const std::string cut = service::audit_text(euros);
  EXPECT_LE(cut.size(), 4096U);
  EXPECT_TRUE(base::is_utf8(cut));
  EXPECT_TRUE(cut.ends_with("..."));
  EXPECT_TRUE(base::is_utf8(service::audit_text(std::string(9000, '\xFF'))));
  EXPECT_LE(service::audit_text(std::string(9000, '\xFF')).size(), 4096U);
  EXPECT_EQ(service::audit_text("a\xFF"), "a%FF");
  EXPECT_LE(service::audit_list(std::vector<std::string>(1000, "x")).size(), 65U);
  EXPECT_LE(wire::json::serialize(service::audit_list(std::vector<std::string>(60, euros))).size(),
            20'000U);
}

TEST(Routes, every_route_that_changes_something_is_in_the_audit_log) {
  // Input to and the size of a session that is recorded, a ticket for what will be, and what is
  // said of a file.
  const std::set<std::string_view> kSilent{"/sandboxes/{id}/sessions/{sid}/stdin",
                                           "/sandboxes/{id}/sessions/{sid}/resize", "/ws-tickets",
                                           "/compose/check"};
  for (const Route& route : routes()) {
    if (route.method != "GET" && !kSilent.contains(route.pattern)) {
      EXPECT_FALSE(route.event.empty()) << route.method << " " << route.pattern;
    }
  }
}

}  // namespace
}  // namespace server
