#include <gtest/gtest.h>
#include <sys/socket.h>

#include "server/content_coding.h"
#include "server/gateway_testing.h"
#include "server/openapi.h"

namespace server {
namespace {

using namespace std::chrono_literals;

struct Relay : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};
  std::string id = gateway.make_ready();
  std::string run_path = "/sandboxes/" + id + "/run";

  // A client whose command runs until somebody ends it.
  std::unique_ptr<net::Stream> connect_and_run() {
    auto client = gateway.connect();
    const std::string body = R"({"argv":["sleep","100"]})";
    const std::string bytes = gateway.head("POST", run_path, body.size()) + body;
    EXPECT_GT(::send(client->fd(), bytes.data(), bytes.size(), 0), 0);
    EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->runs() == 1; }));
    return client;
  }
};

TEST_F(Relay, run_gives_the_commands_outcome) {
  const Reply reply = gateway.call("POST", run_path, R"({"argv":["echo","hello"]})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json().at("stdout").as_string(), "hello\n");
  EXPECT_EQ(gateway.call("POST", run_path, R"({"argv":["false"]})").json().at("exit_code"), 1);
}

TEST_F(Relay, run_refuses_bad_input) {
  struct Case {
    std::string body;
    std::string code;
    std::string field;
  };
  for (const Case& bad :
       {Case{"{", "malformed", ""}, Case{R"({"argv":[]})", "invalid_field", "argv"},
        Case{R"({"argv":[""]})", "invalid_field", "argv"}, Case{R"({})", "missing_field", "argv"},
        Case{R"({"argv":["a"],"command":"b"})", "invalid_field", "command"},
        Case{R"({"argv":["a\u0000"]})", "invalid_field", "argv"},
        Case{R"({"argv":["a"],"tty":1})", "unknown_field", "tty"},
        Case{R"({"argv":["a"],"env":{"":"x"}})", "invalid_field", "env"},
        Case{R"({"argv":["a"],"timeout_sec":0})", "invalid_field", "timeout_sec"},
        Case{R"({"argv":["a"],"cwd":""})", "cwd_invalid", "cwd"},
        Case{R"({"argv":["a"],"encoding":"x"})", "invalid_field", "encoding"},
        Case{R"({"argv":["a"],"container":"db"})", "invalid_field", "container"}}) {
    const Reply reply = gateway.call("POST", run_path, bad.body);
    EXPECT_EQ(reply.code(), bad.code) << bad.body;
    EXPECT_EQ(reply.field(), bad.field) << bad.body;
  }
  EXPECT_EQ(ground.engine.agent(id)->runs(), 0);
  const Reply large = gateway.call("POST", run_path, std::string(size_t{13} * 1024 * 1024, ' '));
  EXPECT_EQ(large.status, 413);
}

TEST_F(Relay, run_keeps_its_agent_connection) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(gateway.call("POST", run_path, R"({"argv":["true"]})").status, 200);
  }
  EXPECT_EQ(ground.engine.connections_made(), 1U);
}

TEST_F(Relay, run_relays_output_larger_than_a_buffer) {
  const Reply reply = gateway.call("POST", run_path, R"({"argv":["flood","3000000"]})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json().at("stdout").as_string().size(), 3'000'000U);
}

TEST_F(Relay, a_client_that_leaves_cancels_its_command) {
  connect_and_run().reset();
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->cancelled_runs() == 1; }));
}

TEST_F(Relay, a_half_closed_client_is_gone_too) {
  const auto client = connect_and_run();
  client->shutdown_write();
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->cancelled_runs() == 1; }));
}

Task<void> expect_two(net::Stream& client) {
  net::HttpReader reader(client);
  for (const std::string expected : {"one\n", "two\n"}) {
    const auto head = co_await reader.read_response("POST", net::Deadline::after(10s));
    EXPECT_TRUE(head.has_value());
    const auto body = co_await reader.read_whole_body(100'000, 10s);
    EXPECT_EQ(wire::json::parse_object(*body)->at("stdout").as_string(), expected);
  }
}

Task<void> expect_refusal(net::Stream& client) {
  net::HttpReader reader(client);
  const auto head = co_await reader.read_response("GET", net::Deadline::after(10s));
  EXPECT_TRUE(head.has_value() && head->status == 503);
}

TEST_F(Relay, a_gateway_that_will_stop_says_so_and_serves_on) {
  gateway.application.draining = true;
  const Reply ready = gateway.call("GET", "/readyz");
  EXPECT_EQ(ready.code(), "draining");
  const Reply reply = gateway.call("POST", run_path, R"({"argv":["true"]})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("connection"), "close");
}

TEST_F(Relay, a_server_that_stops_refuses_new_work_while_what_runs_goes_on) {
  const auto client = connect_and_run();
  net::TaskGroup stopping(ground.loop);
  stopping.spawn(gateway.api.stop(net::Deadline::after(std::chrono::hours(1))));
  const Reply refused = gateway.call("POST", run_path, R"({"argv":["true"]})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "draining");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_EQ(gateway.call("GET", "/healthz").status, 200);
  EXPECT_EQ(gateway.api.running(), 1U);
  EXPECT_EQ(ground.engine.agent(id)->cancelled_runs(), 0);
  gateway.api.hurry();
  EXPECT_TRUE(gateway.eventually([&] { return stopping.size() == 0; }));
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->cancelled_runs() == 1; }));
}

TEST_F(Relay, a_server_that_stops_answers_the_first_request_of_a_connection_that_it_has_taken) {
  const auto busy = connect_and_run();
  const auto taken = gateway.connect();
  ASSERT_TRUE(gateway.eventually([&] { return gateway.api.connections() == 2; }));
  net::TaskGroup stopping(ground.loop);
  stopping.spawn(gateway.api.stop(net::Deadline::after(std::chrono::hours(1))));
  ASSERT_TRUE(gateway.eventually([&] { return gateway.call("GET", "/sandboxes").status == 503; }));
  const std::string late = gateway.head("GET", "/sandboxes", 0);
  ASSERT_GT(::send(taken->fd(), late.data(), late.size(), MSG_NOSIGNAL), 0);
  gateway.run(expect_refusal(*taken));
  gateway.api.hurry();
  EXPECT_TRUE(gateway.eventually([&] { return stopping.size() == 0; }));
}

TEST_F(Relay, pipelined_requests_are_answered_in_order) {
  const auto client = gateway.connect();
  std::string bytes;
  for (const std::string word : {"one", "two"}) {
    const std::string body = R"({"argv":["echo",")" + word + R"("]})";
    bytes += gateway.head("POST", run_path, body.size()) + body;
  }
  ASSERT_GT(::send(client->fd(), bytes.data(), bytes.size(), 0), 0);
  gateway.run(expect_two(*client));
}

TEST_F(Relay, a_sandbox_that_dies_during_a_run_is_told) {
  const auto client = connect_and_run();
  ground.engine.die(id, "agent_lost", "killed");
  std::array<char, 4096> buffer{};
  ssize_t size = 0;
  ASSERT_TRUE(gateway.eventually([&] {
    size = ::recv(client->fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return size > 0;
  }));
  const std::string text(buffer.data(), static_cast<size_t>(size));
  EXPECT_TRUE(text.contains(" 409 ") || text.contains(" 502 ")) << text;
}

TEST_F(Relay, files_go_up_and_come_down_whole) {
  for (const size_t size : {size_t{0}, size_t{10}, size_t{64} * 1024, size_t{3'000'001}}) {
    std::string bytes(size, 'a');
    for (size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<char>('a' + i % 26);
    }
    const std::string path = "/sandboxes/" + id + "/files?path=/tmp/x";
    const Reply up = gateway.call("PUT", path, bytes);
    EXPECT_EQ(up.status, 200) << up.body;
    const Reply down = gateway.call("GET", path);
    EXPECT_EQ(down.status, 200);
    EXPECT_TRUE(down.body == bytes) << size;
    EXPECT_EQ(down.header("content-disposition"), "attachment");
    EXPECT_EQ(down.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(gateway.call("HEAD", path).header("content-length"), std::to_string(size));
  }
}

TEST_F(Relay, a_chunked_upload_arrives) {
  const std::string head = gateway.head("PUT", "/sandboxes/" + id + "/files?path=/c", 0);
  std::string bytes = head;
  bytes.replace(bytes.find("content-length: 0"), 17, "transfer-encoding: chunked");
  bytes += "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
  EXPECT_EQ(gateway.call_raw(bytes, "PUT").status, 200);
  EXPECT_EQ(gateway.call("GET", "/sandboxes/" + id + "/files?path=/c").body, "hello world");
}

TEST_F(Relay, an_upload_with_a_condition_is_refused_and_not_done_without_it) {
  const std::string target = "/sandboxes/" + id + "/files?path=/c";
  EXPECT_EQ(gateway.call("PUT", target, "before").status, 200);
  for (const std::string_view line :
       {"content-range: bytes 0-3/9", "if-match: \"a\"", "if-none-match: *",
        "if-unmodified-since: Mon, 30 Nov 2026 22:31:36 GMT"}) {
    std::string bytes = gateway.head("PUT", target, 4);
    bytes.insert(bytes.find("content-length"), base::cat(line, "\r\n"));
    const Reply reply = gateway.call_raw(bytes + "some", "PUT");
    EXPECT_EQ(reply.status, 422) << line;
    EXPECT_EQ(reply.code(), "not_supported") << line;
  }
  EXPECT_EQ(gateway.call("GET", target).body, "before");
}

TEST_F(Relay, file_paths_are_checked) {
  const std::string files = "/sandboxes/" + id + "/files";
  EXPECT_EQ(gateway.call("GET", files).code(), "missing_field");
  EXPECT_EQ(gateway.call("GET", files + "?path=").code(), "path_invalid");
  EXPECT_EQ(gateway.call("GET", files + "?path=/a%00b").code(), "path_invalid");
  EXPECT_EQ(gateway.call("GET", files + "?path=/a/../b").code(), "path_invalid");
  EXPECT_EQ(gateway.call("GET", files + "?path=%ZZ").code(), "malformed");
  EXPECT_EQ(gateway.call("PUT", files + "?path=/a&list=1").code(), "unknown_field");
  EXPECT_EQ(gateway.call("POST", files + "/move?to=/b").code(), "missing_field");
  EXPECT_EQ(gateway.call("GET", files + "?path=/a&x=1").code(), "unknown_field");
  EXPECT_EQ(gateway.call("GET", files + "?path=/nothing").code(), "file_not_found");
}

TEST_F(Relay, request_bodies_may_be_compressed) {
  const std::string body = encode_content(Coding::gzip, R"({"argv":["echo","zipped"]})");
  const Reply reply = gateway.call("POST", run_path, body, "content-encoding: gzip\r\n");
  EXPECT_EQ(reply.json().at("stdout").as_string(), "zipped\n");
  const Reply broken = gateway.call("POST", run_path, "nonsense", "content-encoding: gzip\r\n");
  EXPECT_EQ(broken.code(), "malformed");
  const Reply bomb =
      gateway.call("POST", run_path, encode_content(Coding::gzip, std::string(20'000'000, ' ')),
                   "content-encoding: gzip\r\n");
  EXPECT_EQ(bomb.code(), "body_too_large");
}

TEST_F(Relay, events_are_followed_to_the_end_and_resumed) {
  const Reply list = gateway.call("GET", "/sandboxes/" + id + "/events");
  const auto items = list.json().at("items").as_array();
  ASSERT_GE(items.size(), 3U);
  EXPECT_EQ(items.front().at("type").as_string(), "created");
  const int64_t last = items.back().at("id").as_int64();
  const auto client = gateway.connect();
  const std::string request = gateway.head("GET", "/sandboxes/" + id + "/events?follow=true", 0,
                                           base::cat("last-event-id: ", last, "\r\n"));
  ASSERT_GT(::send(client->fd(), request.data(), request.size(), 0), 0);
  EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + id + "?wait=5").status, 204);
  std::string text;
  EXPECT_TRUE(gateway.eventually([&] {
    std::array<char, 4096> buffer{};
    const ssize_t size = ::recv(client->fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    text.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return text.ends_with("0\r\n\r\n");
  })) << text;
  EXPECT_FALSE(text.contains("event: created"));
  EXPECT_TRUE(text.contains("event: deleting"));
  EXPECT_TRUE(text.contains("event: deleted"));
}

TEST_F(Relay, broken_http_is_answered_and_closed) {
  EXPECT_EQ(gateway.call_raw("GET /\x01 HTTP/1.1\r\n\r\n").code(), "malformed");
  EXPECT_EQ(
      gateway.call_raw("GET / HTTP/1.1\r\nx: " + std::string(40'000, 'x') + "\r\n\r\n").code(),
      "headers_too_large");
}

TEST_F(Relay, unknown_routes_and_methods_are_told_apart) {
  EXPECT_EQ(gateway.call("GET", "/nothing").code(), "not_found");
  const Reply method = gateway.call("PUT", "/sandboxes/" + id);
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("allow"), "GET, HEAD, PATCH, DELETE");
  EXPECT_EQ(gateway.call("GET", "/nodes").code(), "not_supported");
}

TEST_F(Relay, registries_take_secrets_and_never_give_them) {
  const std::string path = "/teams/default/registries/localhost:5000";
  EXPECT_EQ(gateway.call("GET", path).code(), "not_found");
  const Reply put =
      gateway.call("PUT", path, R"({"username":"u","password":"hush","plain_http":true})");
  EXPECT_EQ(put.status, 200) << put.body;
  const Reply get = gateway.call("GET", path);
  EXPECT_TRUE(get.json().at("plain_http").as_bool());
  EXPECT_FALSE(get.body.contains("hush"));
  const auto access = gateway.registries.access("default", "localhost:5000/a/b:1");
  EXPECT_EQ(access->password.reveal(), "hush");
  EXPECT_EQ(gateway.call("DELETE", path).status, 204);
  EXPECT_EQ(gateway.call("DELETE", path).status, 404);
}

TEST_F(Relay, metrics_count_requests_by_route) {
  gateway.call("POST", run_path, R"({"argv":["true"]})");
  const Reply reply = gateway.call("GET", "/metrics");
  EXPECT_TRUE(reply.body.contains(
      R"(sandbox_gateway_http_requests_total{method="POST",route="/sandboxes/{id}/run",status="2xx"} 1)"))
      << reply.body;
  EXPECT_TRUE(reply.body.contains(R"(sandbox_gateway_sandboxes{state="ready"} 1)"));
}

TEST_F(Relay, metrics_have_every_part_and_a_bounded_number_of_teams) {
  gateway.call("POST", run_path, R"({"argv":["true"]})");
  for (int i = 0; i < 200; ++i) {
    gateway.metrics.count(0, 200, std::chrono::milliseconds(1), base::cat("team-", i));
  }
  const std::string text = gateway.call("GET", "/metrics").body;
  for (const std::string_view line :
       {"sandbox_gateway_team_requests_total{team=\"default\"} ",
        "sandbox_gateway_team_requests_total{team=\"(others)\"} 151",
        "sandbox_gateway_commands_total{kind=\"run\"} 1",
        "sandbox_gateway_command_duration_seconds_count{kind=\"run\"} 1",
        "sandbox_gateway_create_duration_seconds_count 1",
        "sandbox_gateway_store_duration_seconds_bucket", "sandbox_gateway_loop_lag_seconds_sum",
        "sandbox_gateway_audit_pending_rows ", "process_resident_memory_bytes ",
        "sandbox_gateway_shed_requests_total{work=\"heavy\"} 0"}) {
    EXPECT_TRUE(text.contains(line)) << line << "\n" << text;
  }
  EXPECT_FALSE(text.contains("team-199"));
}

TEST(OpenApi, names_every_route_of_the_table_and_no_other) {
  const auto document = wire::json::parse_object(openapi_json());
  ASSERT_TRUE(document.has_value());
  std::set<std::string> documented;
  for (const auto& path : document->at("paths").as_object()) {
    for (const auto& method : path.value().as_object()) {
      std::string name(method.key());
      std::ranges::transform(name, name.begin(),
                             [](char c) { return static_cast<char>(c & ~0x20); });
      documented.insert(base::cat(name, " ", std::string_view(path.key())));
      // Any request can have too long a query.
      EXPECT_TRUE(method.value().at("responses").as_object().contains("431")) << name;
    }
  }
  std::set<std::string> served;
  for (const Route& route : routes()) {
    served.insert(base::cat(route.method, " ", route.pattern));
  }
  EXPECT_EQ(documented, served);
}

}  // namespace
}  // namespace server
