#include <gtest/gtest.h>
#include <sys/socket.h>

#include "server/content_coding.h"
#include "server/embedded_files.h"
#include "server/gateway_testing.h"

namespace server {
namespace {

using namespace std::chrono_literals;

Task<void> take_sample(TestGateway& gateway) {
  const auto taken = co_await gateway.usage.sample();
  EXPECT_TRUE(taken.has_value());
}

struct Sessions : ::testing::Test {
  // What the socket holds now, appended to `text`.
  static void take(net::Stream& client, std::string& text) {
    std::array<char, 4096> buffer{};
    const ssize_t size = ::recv(client.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    text.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
  bool sees(net::Stream& client, std::string& text, std::string_view wanted) {
    return gateway.eventually([&] {
      take(client, text);
      return text.contains(wanted);
    });
  }
  static bool is_closed(net::Stream& client) {
    char byte = 0;
    return ::recv(client.fd(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  static void send(net::Stream& client, std::string_view bytes) {
    ASSERT_EQ(::send(client.fd(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string handshake(const std::string& target, const std::string& headers) const {
    return base::cat("GET ", target,
                     " HTTP/1.1\r\nhost: test\r\nconnection: keep-alive, Upgrade\r\n",
                     "upgrade: websocket\r\nsec-websocket-version: 13\r\n",
                     "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n", headers, "\r\n");
  }

  Ground ground;
  TestGateway gateway{ground};
  std::string id = gateway.make_ready();
  std::string box = "/sandboxes/" + id;
  std::string attach = box + "/sessions/s-1/attach";
};

TEST_F(Sessions, exec_takes_a_line_and_input_and_gives_bytes_and_heads) {
  const Reply reply = gateway.call("POST", box + "/exec", "{\"argv\":[\"cat\"]}\nin\nput\xff");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.body, "in\nput\xff");
  EXPECT_EQ(reply.header("x-stdout-length"), "7");
  EXPECT_EQ(reply.header("x-stderr-length"), "0");
  EXPECT_EQ(reply.header("x-return-code"), "0");
  EXPECT_EQ(reply.header("x-timed-out"), "false");
  EXPECT_EQ(reply.header("content-type"), "application/octet-stream");
  EXPECT_EQ(reply.header("set-cookie"), "");
}

TEST_F(Sessions, exec_takes_any_framing_and_coding) {
  const std::string input(300'000, 'i');
  const std::string body = "{\"argv\":[\"cat\"]}\n" + input;
  std::string chunked = gateway.head("POST", box + "/exec", 0);
  chunked.replace(chunked.find("content-length: 0"), 17, "transfer-encoding: chunked");
  // The line is cut by a chunk's end.
  chunked += base::cat(wire::http::chunk_head(5), body.substr(0, 5), "\r\n",
                       wire::http::chunk_head(body.size() - 5), body.substr(5), "\r\n",
                       wire::http::kLastChunk);
  EXPECT_TRUE(gateway.call_raw(chunked, "POST").body == input);
  const Reply zipped = gateway.call("POST", box + "/exec", encode_content(Coding::gzip, body),
                                    "content-encoding: gzip\r\n");
  EXPECT_TRUE(zipped.body == input) << zipped.status << zipped.body.substr(0, 300);
  const Reply cut =
      gateway.call("POST", box + "/exec", encode_content(Coding::gzip, body).substr(0, 100),
                   "content-encoding: gzip\r\n");
  EXPECT_EQ(cut.code(), "malformed");
  const Reply odd = gateway.call("POST", box + "/exec", body, "content-encoding: br\r\n");
  EXPECT_EQ(odd.code(), "not_supported");
}

TEST_F(Sessions, exec_answers_in_gzip_where_it_is_taken) {
  for (const size_t size : {size_t{3000}, size_t{5'000'000}}) {
    const std::string line = base::cat("{\"argv\":[\"flood\",\"", size, "\"]}\n");
    const Reply reply =
        gateway.call("POST", box + "/exec", line, "accept-encoding: gzip, deflate\r\n");
    EXPECT_EQ(reply.header("content-encoding"), "gzip");
    EXPECT_EQ(reply.header("x-stdout-length"), std::to_string(size));
    EXPECT_LT(reply.body.size(), size / 10);
    const auto plain = decode_content("gzip", reply.body, size);
    ASSERT_TRUE(plain.has_value());
    EXPECT_TRUE(*plain == std::string(size, 'x'));
  }
}

TEST_F(Sessions, exec_refuses_bad_input_before_anything_starts) {
  struct Case {
    std::string body;
    std::string code;
    std::string field;
  };
  for (const Case& bad :
       {Case{"", "malformed", ""}, Case{"\n", "malformed", ""}, Case{"[]\n", "malformed", ""},
        Case{"{\"argv\":[]}\n", "invalid_field", "argv"}, Case{"{}\n", "missing_field", "argv"},
        Case{"{\"argv\":[\"a\"],\"stdin\":\"x\"}\n", "unknown_field", "stdin"},
        Case{"{\"argv\":[\"a\"],\"encoding\":\"utf8\"}\n", "unknown_field", "encoding"},
        Case{std::string(size_t{1024} * 1024, ' ') + "\n", "body_too_large", ""}}) {
    const Reply reply = gateway.call("POST", box + "/exec", bad.body);
    EXPECT_EQ(reply.code(), bad.code) << bad.body.substr(0, 60);
    EXPECT_EQ(reply.field(), bad.field) << bad.body.substr(0, 60);
  }
  EXPECT_EQ(ground.engine.agent(id)->runs(), 0);
}

TEST_F(Sessions, a_client_that_leaves_cancels_its_exec) {
  {
    const auto client = gateway.connect();
    const std::string body = "{\"argv\":[\"sleep\",\"100\"]}\n";
    send(*client, gateway.head("POST", box + "/exec", body.size()) + body);
    ASSERT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->runs() == 1; }));
  }
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->cancelled_runs() == 1; }));
}

TEST_F(Sessions, requests_reach_the_agent_as_checked) {
  struct Case {
    std::string method;
    std::string path;
    std::string body;
    int status;
    std::string target;
  };
  const std::string s1 = "/sessions/s-1";
  for (const Case& row : std::initializer_list<Case>{
           {"POST", "/sessions", R"({"command":"x","tty":{"cols":80,"rows":24}})", 201,
            "/sessions"},
           {"GET", "/sessions", "", 200, "/sessions"},
           {"GET", s1 + "?wait=5", "", 200, s1 + "?wait=5"},
           {"DELETE", s1, "", 200, s1},
           {"GET", s1 + "/logs?offset=9&stream=stderr&encoding=utf8", "", 200,
            s1 + "/logs?offset=9&follow=false&stream=stderr&encoding=utf8"},
           {"GET", "/logs?container=main", "", 200,
            "/sessions/main/logs?offset=0&follow=false&stream=both&encoding=utf8"},
           {"POST", s1 + "/stdin?eof=1&offset=3", "bytes", 200, s1 + "/stdin?eof=1&offset=3"},
           {"POST", s1 + "/kill", R"({"signal":"TERM"})", 200, s1 + "/kill"},
           {"POST", s1 + "/kill", "", 200, s1 + "/kill"},
           {"POST", s1 + "/resize", R"({"cols":1,"rows":1000})", 200, s1 + "/resize"}}) {
    const Reply reply = gateway.call(row.method, box + row.path, row.body);
    EXPECT_EQ(reply.status, row.status) << row.path << reply.body;
    if (row.path.contains("logs")) {
      EXPECT_EQ(reply.header("content-type"), "application/octet-stream");
    }
    EXPECT_EQ(reply.json().at("target").as_string(), row.target);
    EXPECT_EQ(reply.json().at("method").as_string(), row.method);
    EXPECT_EQ(reply.json().at("body").as_string(), row.body);
  }
}

TEST_F(Sessions, bad_requests_end_at_the_gateway) {
  struct Case {
    std::string method;
    std::string path;
    std::string body;
    std::string code;
    std::string field;
  };
  const std::string s1 = "/sessions/s-1";
  for (const Case& bad : std::initializer_list<Case>{
           {"POST", "/sessions", R"({"argv":["a"],"encoding":"utf8"})", "unknown_field",
            "encoding"},
           {"POST", "/sessions", R"({"argv":["a"],"tty":{"cols":0,"rows":1}})", "invalid_field",
            "tty.cols"},
           {"POST", "/sessions", R"({"argv":["a"],"tty":{"cols":1}})", "missing_field", "tty.rows"},
           {"POST", "/sessions", R"({"argv":["a"],"name":"a/b"})", "invalid_field", "name"},
           {"POST", "/sessions", R"({"argv":["a"],"log_limit_bytes":0})", "invalid_field",
            "log_limit_bytes"},
           {"GET", "/sessions/..%2f..", "", "not_found", ""},
           {"GET", s1 + "?wait=301", "", "invalid_field", "wait"},
           {"GET", s1 + "/logs?offset=-1", "", "invalid_field", "offset"},
           {"GET", s1 + "/logs?stream=all", "", "invalid_field", "stream"},
           {"GET", s1 + "/logs?encoding=hex", "", "invalid_field", "encoding"},
           {"GET", "/logs?container=db", "", "invalid_field", "container"},
           {"POST", s1 + "/kill", R"({"signal":"term"})", "invalid_field", "signal"},
           {"POST", s1 + "/resize", R"({"cols":80,"rows":10001})", "invalid_field", "rows"},
           {"POST", s1 + "/resize", "x", "malformed", ""},
           {"GET", s1 + "/attach", "", "malformed", ""},
           {"GET", "/terminal", "", "malformed", ""}}) {
    const Reply reply = gateway.call(bad.method, box + bad.path, bad.body);
    EXPECT_EQ(reply.code(), bad.code) << bad.path << " " << bad.body;
    EXPECT_EQ(reply.field(), bad.field) << bad.path << " " << bad.body;
  }
}

TEST_F(Sessions, a_followed_log_ends_with_its_client_and_counts_as_activity) {
  {
    const auto client = gateway.connect();
    send(*client,
         gateway.head("GET", box + "/logs?follow=true", 0, "accept: application/x-ndjson\r\n"));
    std::string text;
    ASSERT_TRUE(sees(*client, text, "line\n")) << text;
    EXPECT_TRUE(text.contains("content-type: application/x-ndjson"));
    EXPECT_TRUE(text.contains("X-Log-Start-Offset: 7"));
    ground.clock.advance(10h);
    gateway.lifecycle.leases().check_due();
    EXPECT_EQ(gateway.state(id), "ready");
  }
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->streams() == 0; }));
}

TEST_F(Sessions, the_head_of_a_followed_log_ends_at_once) {
  const Reply reply = gateway.call("HEAD", box + "/logs?follow=1");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("x-log-start-offset"), "7");
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->streams() == 0; }));
  EXPECT_EQ(gateway.call("HEAD", box + "/sessions/s-1").status, 200);
}

TEST_F(Sessions, a_log_is_never_served_as_a_page) {
  const auto client = gateway.connect();
  send(*client, gateway.head("GET", box + "/logs?follow=1", 0));
  std::string text;
  ASSERT_TRUE(sees(*client, text, "line\n")) << text;
  EXPECT_TRUE(text.contains("content-type: application/octet-stream"));
  EXPECT_FALSE(text.contains("html"));
}

TEST_F(Sessions, a_websocket_passes_bytes_both_ways) {
  const auto client = gateway.connect();
  const std::string large(500'000, 'w');
  send(*client, handshake(attach, "authorization: Bearer " + gateway.token + "\r\n") + "early");
  std::string text;
  ASSERT_TRUE(sees(*client, text, "early")) << text;
  EXPECT_TRUE(text.starts_with("HTTP/1.1 101 "));
  EXPECT_TRUE(text.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
  EXPECT_FALSE(text.contains("sec-websocket-protocol"));
  text.clear();
  size_t sent = 0;
  EXPECT_TRUE(gateway.eventually([&] {
    const ssize_t size =
        ::send(client->fd(), large.data() + sent, large.size() - sent, MSG_DONTWAIT);
    sent += static_cast<size_t>(std::max<ssize_t>(size, 0));
    take(*client, text);
    return text.size() == large.size();
  }));
  EXPECT_TRUE(text == large);
  ground.engine.die(id, "agent_lost", "killed");
  EXPECT_TRUE(gateway.eventually([&] { return is_closed(*client); }));
}

TEST_F(Sessions, a_websocket_ends_with_its_client) {
  {
    const auto client = gateway.connect();
    send(*client, handshake(box + "/terminal?cols=100&rows=30",
                            "authorization: Bearer " + gateway.token + "\r\n"));
    ASSERT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->streams() == 1; }));
  }
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->streams() == 0; }));
}

TEST_F(Sessions, browsers_show_their_token_as_a_subprotocol_or_a_ticket) {
  const auto answer_to = [&](const std::string& request) {
    const auto client = gateway.connect();
    send(*client, request);
    std::string text;
    EXPECT_TRUE(sees(*client, text, "\r\n\r\n"));
    return text;
  };
  const std::string offered =
      "sec-websocket-protocol: sandbox.v1, bearer." + gateway.token + "\r\n";
  const std::string by_protocol = answer_to(handshake(attach, offered));
  EXPECT_TRUE(by_protocol.contains(" 101 ")) << by_protocol;
  EXPECT_TRUE(by_protocol.contains("sec-websocket-protocol: sandbox.v1\r\n"));
  EXPECT_FALSE(by_protocol.contains(gateway.token));

  const Reply issued = gateway.call("POST", "/ws-tickets");
  EXPECT_EQ(issued.status, 201) << issued.body;
  const std::string ticket(issued.json().at("ticket").as_string());
  EXPECT_TRUE(answer_to(handshake(attach + "?ticket=" + ticket, "")).contains(" 101 "));
  EXPECT_TRUE(answer_to(handshake(attach + "?ticket=" + ticket, "")).contains(" 401 "));
  EXPECT_TRUE(answer_to(handshake(attach + "?ticket=x", "")).contains(" 401 "));
  EXPECT_TRUE(answer_to(handshake(attach, "")).contains(" 401 "));
  // A ticket opens WebSockets and nothing else.
  const Reply second = gateway.call("POST", "/ws-tickets");
  const std::string other(second.json().at("ticket").as_string());
  EXPECT_EQ(gateway
                .call_raw(base::cat("GET ", box, "/sessions?ticket=", other,
                                    " HTTP/1.1\r\nhost: t\r\n\r\n"))
                .code(),
            "unauthenticated");
}

TEST_F(Sessions, a_ticket_ends_after_a_minute) {
  const Reply issued = gateway.call("POST", "/ws-tickets");
  ground.clock.advance(61s);
  const std::string target =
      attach + "?ticket=" + std::string(issued.json().at("ticket").as_string());
  EXPECT_EQ(gateway.call_raw(handshake(target, "")).code(), "unauthenticated");
}

TEST_F(Sessions, handshakes_are_checked) {
  const std::string token = "authorization: Bearer " + gateway.token + "\r\n";
  const std::string good = handshake(attach, token);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& bad :
       {changed("version: 13", "version: 12"), changed("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="),
        changed("keep-alive, Upgrade", "keep-alive"), changed("HTTP/1.1", "HTTP/1.0"),
        changed("upgrade: websocket", "upgrade: h2c"),
        handshake(attach, token + "sec-websocket-protocol: chat\r\n"),
        handshake(attach, token + "content-length: 1\r\n") + "x"}) {
    EXPECT_EQ(gateway.call_raw(bad).code(), "malformed") << bad;
  }
  EXPECT_EQ(ground.engine.agent(id)->streams(), 0);
}

TEST_F(Sessions, a_server_that_stops_ends_endless_streams) {
  const auto follower = gateway.connect();
  const auto socket = gateway.connect();
  send(*follower, gateway.head("GET", box + "/logs?follow=1", 0));
  send(*socket, handshake(attach, "authorization: Bearer " + gateway.token + "\r\n"));
  ASSERT_TRUE(gateway.eventually([&] { return ground.engine.agent(id)->streams() == 2; }));
  const auto began = std::chrono::steady_clock::now();
  gateway.run(gateway.api.stop(net::Deadline::after(60s)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
  std::string text;
  EXPECT_TRUE(gateway.eventually([&] {
    take(*follower, text);
    return is_closed(*follower);
  }));
  // What ends early must not look whole.
  EXPECT_FALSE(text.ends_with("0\r\n\r\n"));
}

TEST_F(Sessions, clients_are_handed_out_without_a_token) {
  const Reply python =
      gateway.call_raw("GET /clients/sandbox_gateway.py HTTP/1.1\r\nhost: t\r\n\r\n");
  EXPECT_EQ(python.status, 200);
  EXPECT_TRUE(python.body.contains("class Gateway"));
  EXPECT_EQ(gateway.call("GET", "/clients/sandbox-terminal.js").header("content-type"),
            "text/javascript; charset=utf-8");
  EXPECT_EQ(gateway.call("GET", "/clients/..%2fsandbox_gateway.py").code(), "not_found");
}

TEST_F(Sessions, the_documents_page_is_whole_or_its_absence_is_told) {
  const Reply page = gateway.call_raw("GET /docs HTTP/1.1\r\nhost: t\r\n\r\n");
  if (docs_files().empty()) {
    EXPECT_EQ(page.code(), "not_found");
    EXPECT_TRUE(page.body.contains("Swagger UI"));
    return;
  }
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  for (const EmbeddedFile& file : docs_files()) {
    const std::string path = base::cat("/docs/", file.name);
    const Reply plain = gateway.call("GET", path);
    const Reply coded = gateway.call("GET", path, "", "accept-encoding: gzip\r\n");
    ASSERT_EQ(coded.header("content-encoding"), "gzip");
    EXPECT_EQ(plain.body, *decode_content("gzip", coded.body, 8 << 20)) << path;
    EXPECT_EQ(gateway.call("GET", path, "", base::cat("if-none-match: ", file.etag, "\r\n")).status,
              304);
  }
}

TEST_F(Sessions, metrics_are_now_and_a_series) {
  for (int i = 0; i < 3; ++i) {
    gateway.run(take_sample(gateway));
    ground.clock.advance(10s);
  }
  const auto object = gateway.call("GET", box + "/metrics").json();
  const auto& series = object.at("series").as_array();
  ASSERT_EQ(series.size(), 3U);
  EXPECT_TRUE(series[0].at("cpu_percent").is_null());
  EXPECT_EQ(series[1].at("cpu_percent").as_double(), 10.0);
  EXPECT_EQ(object.at("now").at("cpu_percent").as_double(), 10.0);
  EXPECT_EQ(object.at("now").at("memory_bytes").as_int64(), 1'000'000);
  EXPECT_EQ(object.at("limits").at("memory_bytes").as_int64(), 64 << 20);
  for (int i = 0; i < 400; ++i) {
    gateway.run(take_sample(gateway));
  }
  EXPECT_EQ(gateway.call("GET", box + "/metrics").json().at("series").as_array().size(), 360U);
  ground.engine.die(id, "agent_lost", "killed");
  ASSERT_TRUE(gateway.eventually([&] { return gateway.state(id) == "failed"; }));
  EXPECT_TRUE(gateway.call("GET", box + "/metrics").json().at("now").is_null());
}

TEST_F(Sessions, activity_is_the_agents) {
  const auto object = gateway.call("GET", box + "/activity").json();
  EXPECT_EQ(object.at("running_commands").as_int64(), 0);
  EXPECT_EQ(object.at("sessions").as_int64(), 0);
}

}  // namespace
}  // namespace server
