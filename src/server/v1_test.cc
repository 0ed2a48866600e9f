#include <gtest/gtest.h>

#include "server/gateway_testing.h"
#include "service/v1_exec_request.h"

namespace server {
namespace {

using namespace std::chrono_literals;

constexpr const char* kRoot = "/api/v1/sandboxes";

struct V1 : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};

  std::string create() {
    const Reply reply = gateway.call("POST", kRoot);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return std::string(reply.json().at("sandbox").at("id").as_string());
  }
  [[nodiscard]] static std::string path(const std::string& id, const std::string& rest = "") {
    return base::cat(kRoot, "/", id, rest);
  }
  // Every error has both forms.
  void expect_error(const Reply& reply, int status, const std::string& code) {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.code(), code) << reply.body;
    const auto object = reply.json();
    ASSERT_TRUE(object.contains("message")) << reply.body;
    EXPECT_EQ(object.at("message"), object.at("error").at("message"));
  }
};

TEST_F(V1, a_sandbox_lives_and_is_archived) {
  const Reply created = gateway.call("POST", kRoot);
  ASSERT_EQ(created.status, 200) << created.body;
  const auto object = created.json();
  const auto& sandbox = object.at("sandbox").as_object();
  const std::string id(sandbox.at("id").as_string());
  EXPECT_EQ(sandbox.at("tenantId").as_string(), "default");
  EXPECT_EQ(sandbox.at("user").at("email").as_string(), "admin@default.invalid");
  EXPECT_FALSE(sandbox.at("isArchived").as_bool());
  for (const char* name : {"lastActivityAt", "createdAt", "updatedAt"}) {
    EXPECT_TRUE(base::parse_rfc3339(sandbox.at(name).as_string())) << name;
  }
  EXPECT_EQ(gateway.call("GET", path(id)).json().at("id").as_string(), id);
  EXPECT_EQ(gateway.call("GET", kRoot).json().at("sandboxes").as_array().size(), 1U);

  const Reply deleted = gateway.call("DELETE", path(id));
  EXPECT_EQ(deleted.status, 200);
  EXPECT_EQ(deleted.body, "{}");
  EXPECT_TRUE(gateway.call("GET", path(id)).json().at("isArchived").as_bool());
  EXPECT_EQ(gateway.call("GET", base::cat(kRoot, "?all=false")).json().at("sandboxes").as_array(),
            wire::json::Array{});
  EXPECT_EQ(
      gateway.call("GET", base::cat(kRoot, "?all=true")).json().at("sandboxes").as_array().size(),
      1U);
  expect_error(gateway.call("DELETE", path(id)), 404, "not_found");
}

TEST_F(V1, a_create_takes_no_body) {
  EXPECT_EQ(gateway.call("POST", kRoot, "{}").status, 200);
  expect_error(gateway.call("POST", kRoot, R"({"image":"x"})"), 422, "invalid_field");
}

TEST_F(V1, a_default_image_that_is_not_here_is_never_looked_for_outside) {
  gateway.default_sandbox.image = "agent";
  const Reply reply = gateway.call("POST", kRoot);
  expect_error(reply, 503, "unavailable");
  EXPECT_TRUE(reply.body.contains("build-default")) << reply.body;
  EXPECT_EQ(ground.engine.size(), 0U);
}

TEST_F(V1, a_sandbox_that_does_not_start_is_an_error_and_removed) {
  ground.engine.fail_next_create(base::Error{.code = ErrorCode::internal, .message = "no luck"});
  const Reply reply = gateway.call("POST", kRoot);
  expect_error(reply, 503, "unavailable");
  EXPECT_TRUE(reply.body.contains("no luck")) << reply.body;
  EXPECT_TRUE(gateway.eventually(
      [this] { return gateway.call("GET", kRoot).json().at("sandboxes").as_array().empty(); }));
}

TEST_F(V1, exec_streams_lines_with_both_forms_keys) {
  const std::string id = create();
  const Reply reply = gateway.call("POST", path(id, "/exec"),
                                   R"({"command":"echo hello","workdir":null,"timeout":30.0})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/x-ndjson");
  EXPECT_TRUE(reply.body.starts_with("{\"type\":\"stdout\",\"stream\":\"stdout\"")) << reply.body;
  EXPECT_TRUE(reply.body.contains("\"exitCode\":0")) << reply.body;
  EXPECT_TRUE(
      gateway.call("POST", path(id, "/exec"), R"({"command":"exit 7"})").body.contains(":7,"));
  const auto logs = gateway.call("GET", path(id, "/audit-logs?eventName=command.stream")).json();
  const auto& rows = logs.at("data").as_array();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("details").at("exit_code").as_int64(), 7);
  EXPECT_EQ(rows[1].at("details").at("command").as_string(), "echo hello");
  EXPECT_EQ(rows[1].at("details").at("caller").as_string(), "admin");
}

TEST_F(V1, a_stream_that_breaks_off_ends_with_an_error_line) {
  const std::string id = create();
  const Reply reply = gateway.call("POST", path(id, "/exec"), R"({"command":"break"})");
  EXPECT_EQ(reply.status, 200);
  const size_t newline = reply.body.find('\n');
  ASSERT_NE(newline, std::string::npos) << reply.body;
  const auto last = wire::json::parse_object(base::trim(
      std::string_view(reply.body).substr(newline + 1, reply.body.size() - newline - 2)));
  ASSERT_TRUE(last.has_value()) << reply.body;
  EXPECT_TRUE(last->at("error").as_bool());
  EXPECT_FALSE(last->at("message").as_string().empty());
}

TEST_F(V1, exec_refuses_bad_input_in_this_apis_words) {
  const std::string id = create();
  struct Case {
    std::string body;
    std::string code;
    std::string field;
  };
  for (const Case& bad : {Case{"", "malformed", ""}, Case{"[]", "malformed", ""},
                          Case{"{}", "missing_field", "command"},
                          Case{R"({"command":1})", "invalid_field", "command"},
                          Case{R"({"command":"a\u0000"})", "invalid_field", "command"},
                          Case{R"({"command":"a","env":{}})", "unknown_field", "env"},
                          Case{R"({"command":"a","workdir":""})", "cwd_invalid", "workdir"},
                          Case{R"({"command":"a","timeout":-1})", "invalid_field", "timeout"},
                          Case{R"({"command":"a","timeout":"1"})", "invalid_field", "timeout"}}) {
    const Reply reply = gateway.call("POST", path(id, "/exec"), bad.body);
    expect_error(reply, bad.code == "malformed" ? 400 : 422, bad.code);
    EXPECT_EQ(reply.field(), bad.field) << reply.body;
  }
  EXPECT_EQ(ground.engine.agent(id)->runs(), 0);
}

TEST(V1Exec, becomes_what_the_agent_takes) {
  const auto request = service::parse_v1_exec(R"({"command":"a","workdir":"/x","timeout":1.5})");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->body, R"({"command":"a","cwd":"/x","timeout_sec":1.5E0})");
  EXPECT_EQ(service::parse_v1_exec(R"({"command":"a","workdir":null,"timeout":0})")->body,
            R"({"command":"a"})");
}

TEST_F(V1, a_client_that_goes_away_cancels_its_command) {
  const std::string id = create();
  const std::string body = R"({"command":"sleep 100"})";
  {
    const auto client = gateway.connect();
    const std::string request = gateway.head("POST", path(id, "/exec"), body.size()) + body;
    net::TaskGroup group(ground.loop);
    auto send = [](net::Stream& stream, std::string bytes) -> net::Task<void> {
      co_await stream.write_all(bytes, 1000ms);
    };
    gateway.run(send(*client, request));
    ASSERT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->runs() == 1; }));
  }
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->cancelled_runs() == 1; }));
}

TEST_F(V1, files_go_in_and_come_out) {
  const std::string id = create();
  for (const std::string& root : {std::string(kRoot), std::string("/sandboxes")}) {
    const std::string file = base::cat(root, "/", id, "/write-file?path=%2Ftmp%2Fa+b%2Bc");
    const Reply written = gateway.call("POST", file, std::string("\0\xFF bytes", 8));
    EXPECT_EQ(written.status, 200) << written.body;
    EXPECT_EQ(written.body, R"({"success":true})");
    EXPECT_EQ(ground.engine.agent(id)->files().at("/tmp/a b+c"), std::string("\0\xFF bytes", 8));
    const Reply read =
        gateway.call("POST", base::cat(root, "/", id, "/read-file?path=/tmp/a%20b%2Bc"));
    EXPECT_EQ(read.status, 200);
    EXPECT_EQ(read.body, std::string("\0\xFF bytes", 8));
    expect_error(gateway.call("POST", base::cat(root, "/", id, "/read-file?path=/none")), 404,
                 "file_not_found");
    expect_error(gateway.call("POST", base::cat(root, "/", id, "/read-file")), 422,
                 "missing_field");
  }
}

TEST_F(V1, audit_logs_come_in_numbered_pages) {
  const std::string id = create();
  for (int i = 0; i < 4; ++i) {
    gateway.call("POST", path(id, "/exec"), R"({"command":"true"})");
  }
  const auto page = gateway.call("GET", path(id, "/audit-logs?page=2&limit=2")).json();
  EXPECT_EQ(wire::json::serialize(page.at("pagination")),
            R"({"page":2,"limit":2,"total":5,"totalPages":3,"hasNext":true,"hasPrev":true})");
  ASSERT_EQ(page.at("data").as_array().size(), 2U);
  const auto& row = page.at("data").as_array()[0];
  EXPECT_EQ(row.at("sandboxId").as_string(), id);
  EXPECT_EQ(row.at("tenantId").as_string(), "default");
  const std::string one = base::cat("/audit-logs/", row.at("id").as_int64());
  EXPECT_EQ(gateway.call("GET", path(id, one)).json(), row.as_object());
  EXPECT_EQ(gateway.call("GET", "/sandboxes/" + id + one).json(), row.as_object());
  expect_error(gateway.call("GET", path(id, "/audit-logs/999")), 404, "not_found");
  expect_error(gateway.call("GET", path(id, "/audit-logs/x")), 404, "not_found");
  expect_error(gateway.call("GET", path(id, "/audit-logs?page=0")), 422, "invalid_field");
  expect_error(gateway.call("GET", path(id, "/audit-logs?startDate=yesterday")), 422,
               "invalid_field");
  // As the published client sends dates: no Z, with or without an offset and microseconds.
  for (const std::string_view date : {"2026-01-01T00:00:00%2B00:00", "2025-12-31T23:59:59.123456",
                                      "2026-01-01T02:00:00%2B02%3A00"}) {
    const auto all =
        gateway.call("GET", path(id, base::cat("/audit-logs?startDate=", date))).json();
    EXPECT_EQ(all.at("pagination").at("total").as_int64(), 5) << date;
  }
  const auto none = gateway.call("GET", path(id, "/audit-logs?endDate=2025-12-31T23:59:59")).json();
  EXPECT_EQ(none.at("pagination").at("total").as_int64(), 0);
  EXPECT_FALSE(none.at("pagination").at("hasNext").as_bool());
}

TEST_F(V1, errors_have_both_forms_on_every_path_below_it) {
  const std::string id = create();
  expect_error(gateway.call("GET", "/api/v1"), 404, "not_found");
  expect_error(gateway.call("GET", "/api/v1/sandboxes/x/no/such/thing"), 404, "not_found");
  expect_error(gateway.call("GET", path("sbx-none")), 404, "not_found");
  expect_error(gateway.call("PUT", path(id)), 405, "method_not_allowed");
  expect_error(gateway.call("POST", path(id, "/ssh-session")), 503, "ssh_unavailable");
  expect_error(gateway.call_raw("GET /api/v1/sandboxes HTTP/1.1\r\nhost: x\r\n\r\n"), 401,
               "unauthenticated");
  const Reply ours = gateway.call("POST", "/sandboxes/" + id + "/ssh-session");
  EXPECT_EQ(ours.code(), "ssh_unavailable");
  EXPECT_FALSE(ours.json().contains("message"));
}

}  // namespace
}  // namespace server
