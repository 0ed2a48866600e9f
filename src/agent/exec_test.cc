#include "agent/exec.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "agent/agent_testing.h"
#include "agent/sha256.h"
#include "base/sys.h"

namespace agent {
namespace {

Answer exec(const TestAgent& agent, const std::string& line, const std::string& input,
            std::string headers = "") {
  return agent.ask({.method = "POST",
                    .target = "/exec",
                    .body = base::cat(line, "\n", input),
                    .headers = std::move(headers)});
}

std::string pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>((i * 2654435761U) >> 13U);
  }
  return bytes;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

TEST(Exec, gives_both_outputs_as_bytes_and_tells_their_lengths) {
  const TestAgent agent;
  const Answer answer =
      exec(agent, R"({"command":"printf 'a\\0\\377'; echo err >&2; cat; exit 3"})",
           std::string("in\0put", 6));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, std::string("a\0\377in\0put", 9) + "err\n");
  EXPECT_EQ(answer.header("x-stdout-length"), "9");
  EXPECT_EQ(answer.header("x-stderr-length"), "4");
  EXPECT_EQ(answer.header("x-return-code"), "3");
  EXPECT_EQ(answer.header("x-timed-out"), "false");
  EXPECT_EQ(answer.header("x-truncated"), "false");
  EXPECT_EQ(answer.header("x-signal"), "");
  EXPECT_EQ(answer.header("content-type"), "application/octet-stream");
}

// EX-12
TEST(Exec, megabytes_of_input_arrive_whole_and_come_back) {
  const TestAgent agent;
  const std::string input = pattern(20'000'000);
  const Answer hash = exec(agent, R"({"argv":["sha256sum"]})", input);
  EXPECT_EQ(hash.body, sha256(input) + "  -\n");
  const Answer copy = exec(agent, R"({"argv":["cat"]})", input.substr(0, 5'000'000));
  EXPECT_TRUE(copy.body == input.substr(0, 5'000'000));
  EXPECT_EQ(exec(agent, R"({"argv":["sha256sum"]})", "").body, sha256("") + "  -\n");
  EXPECT_EQ(exec(agent, R"({"argv":["cat"]})", "a").body, "a");
}

TEST(Exec, a_command_that_does_not_take_its_input_ends_and_the_connection_lives_on) {
  const TestAgent agent;
  TestClient client(agent.socket_path());
  const std::string input(8'000'000, 'z');
  for (const auto& [command, code] :
       {std::pair{"head -c 10 > /dev/null; exit 4", "4"}, std::pair{"sleep 0.3; exit 5", "5"}}) {
    client.send({.method = "POST",
                 .target = "/exec",
                 .body = base::cat("{\"command\":", json_text(command), "}\n", input),
                 .headers = ""});
    const Answer answer = client.receive("POST");
    EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 200);
    EXPECT_EQ(answer.header("x-return-code"), code);
  }
}

TEST(Exec, output_beyond_the_runs_limit_is_whole_and_of_both_streams) {
  const TestAgent agent;
  const Answer answer = exec(agent, R"({"command":"seq 1 6000000 | tee /dev/stderr"})", "");
  constexpr size_t kBytes = 46'888'896;  // seq 1 6000000 | wc -c
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.header("x-stdout-length"), base::cat(kBytes));
  ASSERT_EQ(answer.body.size(), 2 * kBytes);
  EXPECT_TRUE(answer.body.substr(0, kBytes) == answer.body.substr(kBytes));
  EXPECT_TRUE(answer.body.ends_with("5999999\n6000000\n"));
}

TEST(Exec, a_chunked_body_and_one_that_is_asked_for_are_read) {
  const TestAgent agent;
  TestClient client(agent.socket_path());
  client.send(
      "POST /exec HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n"
      "\r\n");
  EXPECT_EQ(client.receive("POST").status, 100);
  client.send("8\r\n{\"argv\":\r\n9\r\n[\"cat\"]}\n\r\n");
  client.send("3\r\nabc\r\n0\r\n\r\n");
  const Answer answer = client.receive("POST");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "abc");
}

TEST(Exec, what_is_not_documented_is_refused) {
  const TestAgent agent;
  struct Row {
    std::string line;
    int status;
    const char* code;
  };
  for (const Row& row :
       {Row{"", 400, "malformed"}, Row{"{", 400, "malformed"}, Row{"{}", 422, "missing_field"},
        Row{R"({"argv":["cat"],"stdin":"x"})", 422, "unknown_field"},
        Row{R"({"argv":["cat"],"encoding":"utf8"})", 422, "unknown_field"},
        Row{R"({"argv":["cat"],"cwd":"/no/such"})", 422, "cwd_invalid"},
        Row{base::cat(R"({"argv":[")", std::string(size_t{1024} * 1024, 'x'), "\"]}"), 413,
            "body_too_large"}}) {
    const Answer answer = exec(agent, row.line, "input");
    EXPECT_EQ(answer.status, row.status) << row.line.substr(0, 100);
    EXPECT_EQ(answer.error_code(), row.code) << row.line.substr(0, 100);
  }
  TestClient client(agent.socket_path());
  client.send(
      "POST /exec HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
      "11\r\n{\"argv\":[\"cat\"]}\n\r\nzz\r\n");
  const Answer broken = client.receive("POST");
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(broken.error_code(), "malformed");
}

TEST(Exec, a_client_that_leaves_ends_the_tree_wherever_it_is) {
  const TestAgent agent;
  for (const char* sent : {"", "first", "everything"}) {
    TestClient client(agent.socket_path());
    const std::string line =
        "{\"command\":\"rm -f pid; echo $$ > pid.new; mv pid.new pid; setsid sleep 600 & wait\"}\n";
    const size_t more = std::string_view(sent) == "everything" ? 0 : 100;
    client.send(base::cat("POST /exec HTTP/1.1\r\nhost: a\r\ncontent-length: ", line.size() + more,
                          "\r\n\r\n", line, more == 0 ? "" : sent));
    pid_t pid = 0;
    EXPECT_TRUE(eventually([&] {
      const auto text = base::sys::read_file(agent.folder() + "/pid", 100);
      pid = text ? base::parse_number<pid_t>(base::split(*text, '\n')[0]).value_or(0) : 0;
      return pid > 0;
    }));
    client.close();
    EXPECT_TRUE(eventually([pid] { return ::kill(pid, 0) != 0; })) << sent;
    EXPECT_TRUE(eventually([&] {
      return agent.ask({.target = "/activity"}).json().at("running_commands").as_int64() == 0;
    })) << sent;
  }
}

TEST(Exec, a_time_out_is_told) {
  const TestAgent agent;
  const Answer answer = exec(agent, R"({"timeout_sec":0.2,"command":"echo begun; sleep 600"})", "");
  EXPECT_EQ(answer.header("x-return-code"), "124");
  EXPECT_EQ(answer.header("x-timed-out"), "true");
  EXPECT_EQ(answer.body, "begun\n");
}

TEST(Exec, death_by_signal_and_missing_programs_are_told) {
  const TestAgent agent;
  const Answer killed = exec(agent, R"({"command":"kill -SEGV $$"})", "");
  EXPECT_EQ(killed.header("x-return-code"), "139");
  EXPECT_EQ(killed.header("x-signal"), "SEGV");
  const Answer missing = exec(agent, R"({"argv":["no-such-program"]})", "");
  EXPECT_EQ(missing.header("x-return-code"), "127");
  EXPECT_NE(missing.body.find("no-such-program"), std::string::npos);
}

}  // namespace
}  // namespace agent
