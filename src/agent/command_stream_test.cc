#include "agent/command_stream.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "agent/agent_testing.h"
#include "base/sys.h"

namespace agent {
namespace {

using wire::json::Object;

struct Told {
  std::string out;
  std::string err;
  std::vector<Object> others;  // in order
};

Told told(const Answer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 300);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.header("content-type"), "application/x-ndjson");
  Told result;
  EXPECT_TRUE(answer.body.ends_with('\n'));
  for (const std::string_view line : base::split(answer.body, '\n')) {
    if (line.empty()) {
      continue;
    }
    const auto object = wire::json::parse_object(line);
    EXPECT_TRUE(object.has_value()) << line.substr(0, 200);
    const std::string type = text_of(*object, "type");
    if (type == "stdout" || type == "stderr") {
      EXPECT_EQ(text_of(*object, "stream"), type);
      EXPECT_EQ(object->size(), 3U);
      (type == "stdout" ? result.out : result.err) += text_of(*object, "data");
    } else {
      result.others.push_back(*object);
    }
  }
  return result;
}

Answer post(const TestAgent& agent, std::string body) {
  return agent.ask({.method = "POST", .target = "/stream", .body = std::move(body), .headers = ""});
}

Told stream(const TestAgent& agent, std::string_view command) {
  return told(post(agent, base::cat("{\"command\":", json_text(command), "}")));
}

TEST(CommandStream, tells_output_and_the_end_with_both_key_sets) {
  const TestAgent agent;
  const Told result = stream(agent, "echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  ASSERT_EQ(result.others.size(), 1U);
  const Object& done = result.others.front();
  EXPECT_EQ(text_of(done, "type"), "done");
  EXPECT_TRUE(done.at("done").as_bool());
  EXPECT_EQ(done.at("exitCode").as_int64(), 3);
  EXPECT_TRUE(done.at("signal").is_null());
  EXPECT_FALSE(done.at("timedOut").as_bool());
  EXPECT_FALSE(done.at("oomKilled").as_bool());
  EXPECT_GE(done.at("durationMs").as_int64(), 0);
}

// EX-04, EX-06
TEST(CommandStream, output_is_whole_and_characters_stay_whole) {
  const TestAgent agent;
  const Told big = stream(agent, "seq 1 2000000");
  EXPECT_EQ(big.out.size(), 14'888'896U);
  EXPECT_TRUE(big.out.ends_with("1999999\n2000000\n"));
  const Told cut = stream(agent,
                          "printf '\\342'; printf 'x\\360\\237' >&2; sleep 0.05; printf '\\202'; "
                          "printf '\\231\\202' >&2; sleep 0.05; printf '\\254\\n\\0\\342'");
  EXPECT_EQ(cut.out, std::string("€\n\0\uFFFD", 8));
  EXPECT_EQ(cut.err, "x🙂");
}

TEST(CommandStream, the_first_line_is_told_while_the_command_goes_on) {
  const TestAgent agent;
  TestClient client(agent.socket_path());
  client.send({.method = "POST",
               .target = "/stream",
               .body = R"({"command":"echo early; while [ ! -e go ]; do sleep 0.01; done"})",
               .headers = ""});
  EXPECT_TRUE(client.wait_for("early"));
  EXPECT_EQ(agent.shell("touch go").at("exit_code").as_int64(), 0);
  EXPECT_EQ(told(client.receive("POST")).out, "early\n");
}

TEST(CommandStream, a_time_out_is_an_error_before_the_end) {
  const TestAgent agent;
  const Told result = told(post(agent, R"({"timeout_sec":0.2,"command":"echo begun; sleep 600"})"));
  EXPECT_EQ(result.out, "begun\n");
  ASSERT_EQ(result.others.size(), 2U);
  EXPECT_EQ(text_of(result.others[0], "type"), "error");
  EXPECT_TRUE(result.others[0].at("error").as_bool());
  EXPECT_EQ(text_of(result.others[0], "message"), "timeout");
  EXPECT_EQ(result.others[1].at("exitCode").as_int64(), 124);
  EXPECT_TRUE(result.others[1].at("timedOut").as_bool());
}

TEST(CommandStream, background_children_do_not_hold_the_end) {
  const TestAgent agent;
  const Told result = stream(agent, "echo started; sleep 600 & echo $! > child; exit 3");
  EXPECT_EQ(result.out, "started\n");
  EXPECT_EQ(result.others.at(0).at("exitCode").as_int64(), 3);
  EXPECT_EQ(agent.shell("kill -9 $(cat child)").at("exit_code").as_int64(), 0);
}

TEST(CommandStream, missing_programs_are_told_and_wrong_requests_refused) {
  const TestAgent agent;
  const Told missing = told(post(agent, R"({"argv":["no-such-program"]})"));
  EXPECT_EQ(missing.others.at(0).at("exitCode").as_int64(), 127);
  EXPECT_NE(missing.err.find("no-such-program"), std::string::npos);
  EXPECT_EQ(post(agent, "{}").status, 422);
  EXPECT_EQ(post(agent, R"({"argv":["true"],"cwd":"/no/such"})").error_code(), "cwd_invalid");
}

TEST(CommandStream, a_reader_that_stands_still_holds_the_command_up) {
  const TestAgent agent;
  TestClient client(agent.socket_path());
  client.send({.method = "POST",
               .target = "/stream",
               .body = R"({"command":"head -c 50000000 /dev/zero | tr '\\0' x; touch finished"})",
               .headers = ""});
  EXPECT_TRUE(client.wait_for("xxx"));
  EXPECT_EQ(agent.shell("sleep 0.2; [ -e finished ]").at("exit_code").as_int64(), 1);
  EXPECT_EQ(told(client.receive("POST")).out.size(), 50'000'000U);
}

TEST(CommandStream, a_client_that_leaves_ends_the_tree) {
  const TestAgent agent;
  for (const bool flooded : {false, true}) {
    TestClient client(agent.socket_path());
    client.send({.method = "POST",
                 .target = "/stream",
                 .body = base::cat(R"({"command":"echo $$ > new; mv new pid; echo told; )",
                                   flooded ? "cat /dev/zero" : "setsid sleep 600 & wait", "\"}"),
                 .headers = ""});
    EXPECT_TRUE(client.wait_for("told"));
    const auto text = base::sys::read_file(agent.folder() + "/pid", 100);
    ASSERT_TRUE(text.has_value());
    const auto pid = base::parse_number<pid_t>(base::split(*text, '\n')[0]);
    client.close();
    EXPECT_TRUE(eventually([&] { return ::kill(*pid, 0) != 0; }));
  }
}

}  // namespace
}  // namespace agent
