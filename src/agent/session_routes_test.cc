#include "agent/session_routes.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "agent/agent_testing.h"
#include "base/sys.h"

namespace agent {
namespace {

using wire::json::Object;

std::string path_of(const Object& session, std::string_view more = "") {
  return base::cat("/sessions/", text_of(session, "id"), more);
}

Answer post(const TestAgent& agent, std::string target, std::string body = "") {
  return agent.ask(
      {.method = "POST", .target = std::move(target), .body = std::move(body), .headers = ""});
}

Object start(const TestAgent& agent, std::string body) {
  const Answer answer = post(agent, "/sessions", std::move(body));
  EXPECT_EQ(answer.status, 201) << answer.body;
  return answer.json();
}

Object start_shell(const TestAgent& agent, std::string_view command) {
  return start(agent, base::cat("{\"command\":", json_text(command), "}"));
}

Object wait_for(const TestAgent& agent, const Object& session) {
  const Answer answer = agent.ask({.target = path_of(session, "?wait=60")});
  EXPECT_EQ(answer.status, 200);
  return answer.json();
}

Answer logs(const TestAgent& agent, const Object& session, std::string_view query = "",
            std::string headers = "") {
  return agent.ask(
      {.target = base::cat(path_of(session, "/logs"), query), .headers = std::move(headers)});
}

int64_t log_field(const Object& session, std::string_view name) {
  return session.at("log").as_object().at(name).as_int64();
}

// What the commands here wait for.
void touch_go(const TestAgent& agent) {
  EXPECT_EQ(agent.shell("touch go").at("exit_code").as_int64(), 0);
}

pid_t pid_in(const TestAgent& agent, const std::string& name) {
  pid_t pid = 0;
  EXPECT_TRUE(eventually([&] {
    const auto text = base::sys::read_file(agent.folder() + "/" + name, 100);
    pid = text ? base::parse_number<pid_t>(base::split(*text, '\n')[0]).value_or(0) : 0;
    return pid > 0;
  }));
  return pid;
}

bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST(Sessions, one_runs_ends_and_is_remembered) {
  const TestAgent agent;
  const Object session = start(
      agent,
      R"({"command":"echo out; echo err >&2; while [ ! -e go ]; do sleep 0.01; done; exit 3",)"
      R"("name":"job","env":{"SECRET":"hidden"}})");
  EXPECT_EQ(text_of(session, "state"), "running");
  EXPECT_EQ(text_of(session, "name"), "job");
  EXPECT_GT(session.at("pid").as_int64(), 1);
  EXPECT_TRUE(session.at("exit_code").is_null());
  EXPECT_TRUE(session.at("ended_at").is_null());
  EXPECT_TRUE(session.at("tty").is_null());
  EXPECT_EQ(session.at("argv").as_array().at(0).as_string(), "sh");
  const Object active = agent.ask({.target = "/activity"}).json();
  EXPECT_EQ(active.at("sessions").as_int64(), 1);
  touch_go(agent);
  const Object ended = wait_for(agent, session);
  EXPECT_EQ(text_of(ended, "state"), "exited");
  EXPECT_EQ(ended.at("exit_code").as_int64(), 3);
  EXPECT_TRUE(ended.at("signal").is_null());
  EXPECT_FALSE(ended.at("timed_out").as_bool());
  EXPECT_FALSE(text_of(ended, "ended_at").empty());
  EXPECT_EQ(log_field(ended, "end_offset"), 8);
  EXPECT_EQ(logs(agent, session).body.size(), 8U);
  const Object list = agent.ask({.target = "/sessions"}).json();
  ASSERT_EQ(list.at("items").as_array().size(), 1U);
  EXPECT_TRUE(list.at("next_cursor").is_null());
  EXPECT_EQ(agent.ask({.target = "/sessions"}).body.find("hidden"), std::string::npos);
  EXPECT_EQ(agent.ask({.target = "/sessions/job"}).json(), ended);
  EXPECT_EQ(agent.ask({.target = "/activity"}).json().at("sessions").as_int64(), 0);
}

TEST(Sessions, death_by_signal_a_time_out_and_a_missing_program_are_told) {
  const TestAgent agent;
  const Object killed = wait_for(agent, start_shell(agent, "kill -SEGV $$"));
  EXPECT_EQ(killed.at("exit_code").as_int64(), 139);
  EXPECT_EQ(text_of(killed, "signal"), "SEGV");
  const Object late = wait_for(agent, start(agent, R"({"command":"sleep 600","timeout_sec":0.1})"));
  EXPECT_EQ(late.at("exit_code").as_int64(), 124);
  EXPECT_TRUE(late.at("timed_out").as_bool());
  const Object missing = wait_for(agent, start(agent, R"({"argv":["no-such-program"]})"));
  EXPECT_EQ(missing.at("exit_code").as_int64(), 127);
  EXPECT_NE(logs(agent, missing).body.find("no-such-program"), std::string::npos);
}

TEST(Sessions, what_cannot_be_started_is_refused_and_not_remembered) {
  const TestAgent agent;
  struct Row {
    const char* body;
    int status;
    const char* code;
  };
  for (const Row& row :
       {Row{"", 400, "malformed"}, Row{"{}", 422, "missing_field"},
        Row{R"({"argv":[]})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"stdin":"text"})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"name":"a b"})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"name":"."})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"name":".."})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"tty":{"cols":0,"rows":1}})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"tty":{"cols":80}})", 422, "missing_field"},
        Row{R"({"argv":["a"],"tty":{"cols":80,"rows":24,"x":1}})", 422, "unknown_field"},
        Row{R"({"argv":["a"],"log_limit_bytes":65535})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"log_limit_bytes":1073741825})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"encoding":"utf8"})", 422, "unknown_field"},
        Row{R"({"argv":["a"],"cwd":"/no/such"})", 422, "cwd_invalid"},
        Row{R"({"argv":["a"],"user":"no-such"})", 422, "user_unknown"}}) {
    const Answer answer = post(agent, "/sessions", row.body);
    EXPECT_EQ(answer.status, row.status) << row.body;
    EXPECT_EQ(answer.error_code(), row.code) << row.body;
  }
  EXPECT_TRUE(agent.ask({.target = "/sessions"}).json().at("items").as_array().empty());
  EXPECT_EQ(agent.ask({.target = "/sessions/none"}).error_code(), "not_found");
  EXPECT_EQ(agent.ask({.target = "/sessions/none/other"}).error_code(), "not_found");
  EXPECT_EQ(post(agent, "/sessions/none").error_code(), "method_not_allowed");
}

TEST(Sessions, a_name_is_of_one_running_session) {
  const TestAgent agent;
  const Object first = start(agent, R"({"argv":["sleep","600"],"name":"one"})");
  const Answer second = post(agent, "/sessions", R"({"argv":["true"],"name":"one"})");
  EXPECT_EQ(second.status, 409);
  EXPECT_EQ(second.error_code(), "conflict");
  EXPECT_EQ(post(agent, path_of(first, "/kill"), R"({"signal":"KILL"})").status, 204);
  EXPECT_EQ(text_of(wait_for(agent, first), "signal"), "KILL");
  const Object third = start(agent, R"({"argv":["sleep","600"],"name":"one"})");
  EXPECT_EQ(text_of(agent.ask({.target = "/sessions/one"}).json(), "id"), text_of(third, "id"));
}

// SE-03
TEST(Sessions, a_signal_goes_to_the_whole_tree_once_and_removal_ends_it) {
  const TestAgent agent;
  const Object clean =
      start_shell(agent,
                  "trap 'sleep 0.2; echo bye; exit 7' TERM; setsid sh -c 'echo $$ > child.new; "
                  "mv child.new child; exec sleep 600' & while :; do sleep 0.01; done");
  const pid_t child = pid_in(agent, "child");
  EXPECT_EQ(post(agent, path_of(clean, "/kill")).status, 204);
  EXPECT_TRUE(eventually([child] { return !alive(child); }));
  EXPECT_EQ(wait_for(agent, clean).at("exit_code").as_int64(), 7);
  EXPECT_TRUE(logs(agent, clean).body.ends_with("bye\n"));
  EXPECT_EQ(post(agent, path_of(clean, "/kill")).error_code(), "session_exited");
  EXPECT_EQ(post(agent, path_of(clean, "/kill"), R"({"signal":"NONE"})").error_code(),
            "invalid_field");

  const Object stubborn = start_shell(
      agent,
      "rm -f child; trap '' TERM; (echo x > /dev/null; exec setsid sh -c 'trap \"\" TERM; "
      "echo $$ > child.new; mv child.new child; while :; do sleep 0.1; done') & wait");
  const pid_t deaf = pid_in(agent, "child");
  EXPECT_EQ(agent.ask({.method = "DELETE", .target = path_of(stubborn)}).status, 204);
  EXPECT_TRUE(eventually([deaf] { return !alive(deaf); }));
  EXPECT_EQ(agent.ask({.target = path_of(stubborn)}).status, 404);
}

TEST(Sessions, a_finished_one_is_forgotten_without_what_it_left_running) {
  const TestAgent agent;
  const Object session = start_shell(agent,
                                     "setsid sh -c 'echo $$ > child.new; mv child.new child; exec "
                                     "sleep 600' & while [ ! -e go ]; do sleep 0.01; done");
  const pid_t child = pid_in(agent, "child");
  const std::string forget = path_of(session, "?keep_background=1");
  EXPECT_EQ(agent.ask({.method = "DELETE", .target = forget}).error_code(), "conflict");
  touch_go(agent);
  wait_for(agent, session);
  EXPECT_EQ(agent.ask({.method = "DELETE", .target = forget}).status, 204);
  EXPECT_EQ(agent.ask({.target = path_of(session)}).status, 404);
  // Commands that come later do not take over what is its own.
  const Object later = start_shell(agent, "exit 0");
  wait_for(agent, later);
  EXPECT_EQ(agent.ask({.method = "DELETE", .target = path_of(later)}).status, 204);
  EXPECT_TRUE(alive(child));
  ::kill(child, SIGKILL);
}

TEST(Sessions, input_is_taken_in_order_and_a_repeated_write_is_harmless) {
  const TestAgent agent;
  const Object session = start(agent, R"({"argv":["cat"]})");
  const auto write = [&](std::string_view query, std::string body) {
    return post(agent, path_of(session, base::cat("/stdin", query)), std::move(body));
  };
  EXPECT_EQ(write("", "abc").body, "{\"offset\":3}");
  EXPECT_EQ(write("?offset=0", "abcdef").body, "{\"offset\":6}");
  EXPECT_EQ(write("?offset=3", "def").body, "{\"offset\":6}");
  const Answer gap = write("?offset=7", "x");
  EXPECT_EQ(gap.status, 416);
  EXPECT_EQ(gap.error_code(), "range_not_satisfiable");
  EXPECT_EQ(write("?offset=-1", "x").error_code(), "invalid_field");
  EXPECT_EQ(write("?eof=maybe", "x").error_code(), "invalid_field");
  EXPECT_EQ(write("?offset=6&eof=1", "g").body, "{\"offset\":7}");
  EXPECT_EQ(wait_for(agent, session).at("exit_code").as_int64(), 0);
  EXPECT_EQ(logs(agent, session).body, "abcdefg");
  EXPECT_EQ(write("", "x").error_code(), "session_exited");
  // Repeats of what was taken, whose answers may have been lost.
  EXPECT_EQ(write("?offset=6&eof=1", "g").body, "{\"offset\":7}");
  EXPECT_EQ(write("?offset=0", "abcdef").body, "{\"offset\":7}");
  EXPECT_EQ(write("?offset=7&eof=1", "").body, "{\"offset\":7}");
  // One byte of it is new.
  EXPECT_EQ(write("?offset=6", "gh").error_code(), "session_exited");
  EXPECT_EQ(write("?offset=7", "h").error_code(), "session_exited");
  EXPECT_EQ(write("?offset=8", "").error_code(), "range_not_satisfiable");
}

TEST(Sessions, a_repeated_write_is_answered_after_the_command_closed_its_input) {
  const TestAgent agent;
  const Object session = start_shell(
      agent, "read line; exec <&-; echo closed; while [ ! -e go ]; do sleep 0.01; done");
  const auto write = [&](std::string_view query, std::string body) {
    return post(agent, path_of(session, base::cat("/stdin", query)), std::move(body));
  };
  EXPECT_EQ(write("?offset=0", "line\n").body, "{\"offset\":5}");
  EXPECT_TRUE(eventually([&] { return logs(agent, session).body == "closed\n"; }));
  EXPECT_EQ(write("?offset=0", "line\n").body, "{\"offset\":5}");
  EXPECT_TRUE(eventually([&] { return write("", "x").error_code() == "conflict"; }));
  touch_go(agent);
  EXPECT_EQ(wait_for(agent, session).at("exit_code").as_int64(), 0);
}

TEST(Sessions, big_input_waits_for_the_command) {
  const TestAgent agent;
  const Object session =
      start_shell(agent, "while [ ! -e go ]; do sleep 0.01; done; sha256sum; echo end");
  TestClient client(agent.socket_path());
  client.send(base::cat("POST ", path_of(session, "/stdin?eof=1"),
                        " HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\n",
                        std::string(100'000, 'z')));
  // Another writer's turn comes when this one is through.
  TestClient second(agent.socket_path());
  second.send(
      {.method = "POST", .target = path_of(session, "/stdin"), .body = "late", .headers = ""});
  touch_go(agent);
  client.send(std::string(2'900'000, 'z'));
  EXPECT_EQ(client.receive("POST").body, "{\"offset\":3000000}");
  EXPECT_GE(second.receive("POST").status, 409);
  EXPECT_EQ(wait_for(agent, session).at("exit_code").as_int64(), 0);
  EXPECT_TRUE(
      logs(agent, session)
          .body.starts_with(text_of(
              agent.shell("head -c 3000000 /dev/zero | tr '\\0' z | sha256sum"), "stdout")));
}

TEST(Sessions, one_without_input_ends_at_once_and_takes_none) {
  const TestAgent agent;
  const Object session =
      start(agent, R"({"command":"cat; while [ ! -e go ]; do sleep 0.01; done","stdin":false})");
  EXPECT_EQ(post(agent, path_of(session, "/stdin"), "x").error_code(), "conflict");
  EXPECT_EQ(post(agent, path_of(session, "/resize"), R"({"cols":1,"rows":1})").error_code(),
            "conflict");
  touch_go(agent);
  EXPECT_EQ(wait_for(agent, session).at("exit_code").as_int64(), 0);
}

// SE-01
TEST(Sessions, a_log_read_in_parts_is_the_whole_once) {
  const TestAgent agent;
  const Object session = start_shell(
      agent, "for i in $(seq 1 3000); do echo $i; [ $((i % 300)) = 0 ] && sleep 0.02; done");
  std::string expected;
  for (int i = 1; i <= 3000; ++i) {
    expected += base::cat(i, "\n");
  }
  TestClient follower(agent.socket_path());
  follower.send({.target = path_of(session, "/logs?follow=true")});
  // This one's connection breaks again and again.
  std::string seen;
  while (seen.size() < expected.size()) {
    TestClient client(agent.socket_path());
    client.send({.target = base::cat(path_of(session, "/logs"), "?follow=1&offset=", seen.size()),
                 .headers = "connection: close\r\n"});  // its end is seen, however short the rest
    ASSERT_TRUE(client.wait_for("\r\n\r\n"));
    client.wait_for_bytes(1500);
    seen += payload_of_chunks(client.take());
  }
  EXPECT_TRUE(seen == expected);
  const Answer whole = follower.receive();
  EXPECT_TRUE(whole.whole);
  EXPECT_TRUE(whole.body == expected);
  const Answer part = logs(agent, session, "?offset=100");
  EXPECT_TRUE(part.body == expected.substr(100));
  EXPECT_EQ(part.header("x-log-start-offset"), "100");
  EXPECT_EQ(part.header("content-length"), base::cat(expected.size() - 100));
  EXPECT_EQ(logs(agent, session, base::cat("?offset=", expected.size())).body, "");
  const Answer beyond = logs(agent, session, base::cat("?offset=", expected.size() + 1));
  EXPECT_EQ(beyond.status, 416);
  EXPECT_EQ(beyond.error_code(), "range_not_satisfiable");
  for (const char* query :
       {"?offset=-1", "?offset=x", "?follow=x", "?stream=stdin", "?stream=stdout&offset=1"}) {
    EXPECT_EQ(logs(agent, session, query).error_code(), "invalid_field") << query;
  }
}

TEST(Sessions, streams_can_be_told_apart) {
  const TestAgent agent;
  const Object session = start_shell(
      agent, "for i in 1 2 3; do echo out$i; sleep 0.02; echo err$i >&2; sleep 0.02; done; exit 4");
  const Answer lines = logs(agent, session, "?follow=true", "accept: application/x-ndjson\r\n");
  EXPECT_EQ(logs(agent, session, "?stream=stdout").body, "out1\nout2\nout3\n");
  EXPECT_EQ(logs(agent, session, "?stream=stderr&follow=1").body, "err1\nerr2\nerr3\n");
  std::string both;
  int64_t next = 0;
  const auto rows = base::split(base::trim(lines.body), '\n');
  for (const std::string_view row : rows) {
    if (row.empty()) {
      continue;
    }
    const auto object = wire::json::parse_object(row);
    ASSERT_TRUE(object.has_value()) << row;
    if (object->contains("exit")) {
      EXPECT_EQ(object->at("exit").as_object().at("exit_code").as_int64(), 4);
      continue;
    }
    EXPECT_EQ(object->at("offset").as_int64(), next);
    next = object->at("next_offset").as_int64();
    EXPECT_FALSE(text_of(*object, "time").empty());
    both += base::cat(text_of(*object, "stream"), ":", text_of(*object, "data"));
  }
  EXPECT_EQ(both, "stdout:out1\nstderr:err1\nstdout:out2\nstderr:err2\nstdout:out3\nstderr:err3\n");
  const Answer err_lines =
      logs(agent, session, "?stream=stderr", "accept: application/x-ndjson\r\n");
  EXPECT_EQ(err_lines.body.find("out1"), std::string::npos);
  EXPECT_NE(err_lines.body.find("err2"), std::string::npos);
}

TEST(Sessions, lines_in_base64_are_the_bytes_themselves_from_any_offset) {
  const TestAgent agent;
  const Object session =
      start_shell(agent, "printf 'a\\377\\342'; sleep 0.05; printf '\\202\\254'");
  wait_for(agent, session);
  for (int from = 0; from <= 5; ++from) {
    const Answer lines = logs(agent, session, base::cat("?encoding=base64&offset=", from),
                              "accept: application/x-ndjson\r\n");
    std::string bytes;
    for (const std::string_view row : base::split(base::trim(lines.body), '\n')) {
      const auto object = wire::json::parse_object(row);
      if (object && object->contains("data")) {
        bytes += base::decode_base64(text_of(*object, "data")).value_or("not base64");
      }
    }
    EXPECT_EQ(bytes, std::string("a\377\342\202\254").substr(static_cast<size_t>(from)));
  }
  EXPECT_EQ(logs(agent, session, "?encoding=hex").error_code(), "invalid_field");
}

// EX-06
TEST(Sessions, a_character_cut_between_writes_stays_whole_in_lines) {
  const TestAgent agent;
  const Object session = start_shell(
      agent, "printf '\\342'; sleep 0.05; printf '\\202'; sleep 0.05; printf '\\254\\n\\342'");
  const Answer lines = logs(agent, session, "?follow=true", "accept: application/x-ndjson\r\n");
  EXPECT_NE(lines.body.find("€\\n"), std::string::npos) << lines.body;
  EXPECT_NE(lines.body.find("\"data\":\"\uFFFD\""), std::string::npos) << lines.body;
}

// SE-05
TEST(Sessions, without_a_follower_the_command_is_not_held_up_and_the_oldest_bytes_go) {
  const TestAgent agent;
  const Object session =
      start(agent, R"({"command":"head -c 30000000 /dev/zero | tr '\\0' x; echo END",)"
                   R"("log_limit_bytes":65536})");
  const Object ended = wait_for(agent, session);
  EXPECT_EQ(log_field(ended, "end_offset"), 30'000'004);
  EXPECT_EQ(log_field(ended, "start_offset"), 30'000'004 - 65'536);
  EXPECT_EQ(log_field(ended, "dropped_bytes"), 30'000'004 - 65'536);
  const Answer log = logs(agent, session);
  EXPECT_EQ(log.body.size(), 65'536U);
  EXPECT_TRUE(log.body.ends_with("xxxEND\n"));
  EXPECT_EQ(log.header("x-log-start-offset"), base::cat(30'000'004 - 65'536));
}

TEST(Sessions, one_that_says_it_is_followed_waits_for_its_first_follower) {
  const TestAgent agent;
  const Object session =
      start(agent, R"({"command":"seq 1 2000000","followed":true,"log_limit_bytes":65536})");
  // A follower that comes late: the command has written all that it may.
  constexpr int64_t kAllowed = 49'152;
  ASSERT_TRUE(eventually([&] {
    return log_field(agent.ask({.target = path_of(session)}).json(), "end_offset") >= kAllowed;
  }));
  const Answer log = logs(agent, session, "?follow=true");
  EXPECT_EQ(log.header("x-log-start-offset"), "0");
  EXPECT_TRUE(log.whole);
  EXPECT_EQ(log.body.size(), 14'888'896U);
  EXPECT_TRUE(log.body.starts_with("1\n2\n"));
  EXPECT_EQ(post(agent, "/sessions", R"({"argv":["a"],"followed":1})").error_code(),
            "invalid_field");
}

TEST(Sessions, a_follower_loses_nothing_of_a_flood_far_above_the_ring) {
  const TestAgent agent;
  const Object session =
      start(agent, R"({"command":"while [ ! -e go ]; do sleep 0.01; done; seq 1 2000000",)"
                   R"("log_limit_bytes":65536})");
  TestClient slow(agent.socket_path());  // reads its first bytes only
  slow.send({.target = path_of(session, "/logs?follow=1")});
  TestClient lines(agent.socket_path());
  lines.send({.target = path_of(session, "/logs?follow=1"),
              .headers = "accept: application/x-ndjson\r\n"});
  TestClient client(agent.socket_path());
  client.send({.target = path_of(session, "/logs?follow=1")});
  ASSERT_TRUE(client.wait_for("\r\n\r\n"));
  ASSERT_TRUE(slow.wait_for("\r\n\r\n"));
  touch_go(agent);
  const Answer answer = client.receive();
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body.size(), 14'888'896U);
  EXPECT_TRUE(answer.body.ends_with("1999999\n2000000\n"));
  // Nobody waited for this one: its answer breaks off where the log has moved past it.
  const Answer broken = slow.receive();
  EXPECT_FALSE(broken.whole);
  EXPECT_TRUE(answer.body.starts_with(broken.body));
  const Answer told = lines.receive();
  EXPECT_TRUE(told.whole);
  EXPECT_NE(told.body.find("{\"dropped\":{\"start_offset\":"), std::string::npos);
  EXPECT_NE(told.body.find("{\"exit\":{\"exit_code\":0"), std::string::npos);
}

TEST(Sessions, a_background_child_does_not_hold_the_end) {
  const TestAgent agent;
  const Object session =
      start_shell(agent, "echo started; setsid sleep 600 & echo $! > child; exit 3");
  const Object ended = wait_for(agent, session);
  EXPECT_EQ(ended.at("exit_code").as_int64(), 3);
  EXPECT_EQ(logs(agent, session, "?follow=1").body, "started\n");
  const pid_t child = pid_in(agent, "child");
  EXPECT_TRUE(alive(child));
  ::kill(child, SIGKILL);
}

TEST(Sessions, the_entrypoint_of_the_image_is_the_session_main) {
  const TestAgent agent(
      Config{.user = "", .entrypoint = {"sh", "-c", "echo entry; exec sleep 600"}});
  EXPECT_TRUE(
      eventually([&] { return agent.ask({.target = "/sessions/main/logs"}).body == "entry\n"; }));
  EXPECT_EQ(text_of(agent.ask({.target = "/sessions/main"}).json(), "state"), "running");
  const TestAgent broken(Config{.user = "no-such-user", .entrypoint = {"true"}});
  const Object session = broken.ask({.target = "/sessions/main"}).json();
  EXPECT_EQ(text_of(session, "state"), "exited");
  EXPECT_NE(broken.ask({.target = "/sessions/main/logs"}).body.find("no-such-user"),
            std::string::npos);
}

TEST(Sessions, many_at_once_all_end_and_the_oldest_are_forgotten) {
  const TestAgent agent;
  constexpr size_t kCount = Sessions::kFinishedMax + 40;
  std::string last;
  for (size_t i = 0; i < kCount; ++i) {
    last = text_of(start_shell(agent, base::cat("echo ", i)), "id");
  }
  EXPECT_TRUE(eventually(
      [&] { return agent.ask({.target = "/activity"}).json().at("sessions").as_int64() == 0; }));
  const Object list = agent.ask({.target = "/sessions"}).json();
  EXPECT_EQ(list.at("items").as_array().size(), Sessions::kFinishedMax);
  EXPECT_EQ(list.at("items").as_array().at(0).at("id").as_string(), last);
}

}  // namespace
}  // namespace agent
