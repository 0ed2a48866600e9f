// exec, run, shell and the sessions commands against a real HTTP and WebSocket server with scripted
// answers.
#include <signal.h>

#include "cli/application_testing.h"
#include "cli/format.h"
#include "wire/json.h"
#include "wire/websocket.h"

namespace cli {
namespace {

using wire::websocket::make_frame;
using wire::websocket::Opcode;

constexpr std::string_view kSession =
    R"({"id":"s-1","name":null,"state":"running","tty":null,)"
    R"("log":{"start_offset":0,"end_offset":3,"dropped_bytes":0}})";

class SessionCommands : public ApplicationFixture {
 protected:
  SessionCommands() { clock_ = &real_clock_; }
};

std::string out(std::string_view bytes) {
  return make_frame(Opcode::binary, base::cat('\1', bytes));
}
std::string err(std::string_view bytes) {
  return make_frame(Opcode::binary, base::cat('\2', bytes));
}
std::string offset(uint64_t bytes) {
  return make_frame(Opcode::text, base::cat(R"({"type":"offset","offset":)", bytes, "}"));
}
std::string exited(int code) {
  return make_frame(Opcode::text,
                    base::cat(R"({"type":"exit","exit_code":)", code, R"(,"signal":null})")) +
         make_frame(Opcode::close, wire::websocket::close_payload(1000, ""));
}
ScriptedAnswer started() { return {.status = 201, .body = std::string(kSession)}; }
ScriptedAnswer frames(std::string bytes) { return {.frames = {{.bytes = std::move(bytes)}}}; }
ScriptedAnswer failure(int status, std::string_view code) {
  return {.status = status,
          .body = base::cat(R"({"error":{"code":")", code, R"(","message":"m"}})")};
}
std::string field(const SeenRequest& request, std::string_view name) {
  const auto object = wire::json::parse_object(request.body);
  return object ? field_text(*object, name) : "no JSON: " + request.body;
}

TEST_F(SessionCommands, exec_streams_output_and_gives_the_exit_code) {
  ScriptedServer server({started(),
                         frames(offset(0) + out(std::string_view("out\xff\0", 5)) + offset(5) +
                                err("err") + offset(8) + exited(7)),
                         {.status = 204}});
  EXPECT_EQ(run(server,
                {"exec", "sbx-1", "-e", "A=1", "--cwd", "/w", "--timeout", "9", "--", "cmd", "-x"}),
            7)
      << error_;
  EXPECT_EQ(out_, std::string_view("out\xff\0", 5));
  EXPECT_EQ(error_, "err");
  const auto seen = server.seen();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].line, "POST /sandboxes/sbx-1/sessions HTTP/1.1");
  EXPECT_EQ(field(seen[0], "argv"), R"(["cmd","-x"])");
  EXPECT_EQ(field(seen[0], "stdin"), "false");
  EXPECT_EQ(field(seen[0], "followed"), "true");
  EXPECT_EQ(field(seen[0], "env"), R"({"A":"1"})");
  EXPECT_EQ(field(seen[0], "cwd"), "/w");
  EXPECT_EQ(field(seen[0], "timeout_sec"), "9");
  EXPECT_EQ(seen[1].line, "GET /sandboxes/sbx-1/sessions/s-1/attach?offset=0 HTTP/1.1");
  EXPECT_TRUE(seen[1].head.contains("authorization: Bearer token-1\r\n") ||
              seen[1].head.contains("Authorization: Bearer token-1\r\n"));
  EXPECT_EQ(seen[2].line, "DELETE /sandboxes/sbx-1/sessions/s-1?keep_background=1 HTTP/1.1");
}

TEST_F(SessionCommands, exec_passes_its_input_and_the_end_of_it) {
  ScriptedServer server(
      {started(),
       {.frames = {{.bytes = offset(0)}, {.bytes = out("IN") + exited(0), .after_requests = 3}}},
       {.body = R"({"offset":3})"},
       {.status = 204}});
  use_input("in\n");
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "tr", "a-z", "A-Z"}), 0) << error_;
  EXPECT_EQ(out_, "IN");
  const auto seen = server.seen();
  EXPECT_EQ(field(seen[0], "stdin"), "true");
  EXPECT_EQ(seen[2].line, "POST /sandboxes/sbx-1/sessions/s-1/stdin?offset=0&eof=1 HTTP/1.1");
  EXPECT_EQ(seen[2].body, "in\n");
}

TEST_F(SessionCommands, input_is_sent_again_from_what_was_taken) {
  ScriptedServer server(
      {started(),
       {.frames = {{.bytes = offset(0)}, {.bytes = exited(0), .after_requests = 6}}},
       {.drop = true},
       failure(503, "draining"),
       {.body = R"({"offset":2})"},
       {.body = R"({"offset":5})"},
       {.status = 204}});
  use_input("hello");
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "cat"}), 0) << error_;
  const auto seen = server.seen();
  for (const size_t same : {2U, 3U, 4U}) {
    EXPECT_TRUE(seen[same].line.contains("/stdin?offset=0&eof=1")) << seen[same].line;
    EXPECT_EQ(seen[same].body, "hello");
  }
  EXPECT_TRUE(seen[5].line.contains("/stdin?offset=2&eof=1")) << seen[5].line;
  EXPECT_EQ(seen[5].body, "llo");
}

TEST_F(SessionCommands, input_that_nobody_takes_is_no_error) {
  ScriptedServer server(
      {started(),
       {.frames = {{.bytes = offset(0)}, {.bytes = exited(4), .after_requests = 3}}},
       failure(409, "session_exited"),
       {.status = 204}});
  use_input("unread");
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "true"}), 4) << error_;
  EXPECT_EQ(error_, "");
}

TEST_F(SessionCommands, no_input_is_asked_for_with_n) {
  ScriptedServer server({started(), frames(offset(0) + exited(0)), {.status = 204}});
  use_input("not read");
  EXPECT_EQ(run(server, {"exec", "-n", "sbx-1", "--", "cat"}), 0) << error_;
  EXPECT_EQ(field(server.seen()[0], "stdin"), "false");
}

TEST_F(SessionCommands, a_broken_stream_goes_on_where_it_was) {
  ScriptedServer server({started(),
                         {.hang_up = true, .frames = {{.bytes = offset(0) + out("one")}}},
                         {.drop = true},
                         failure(503, "draining"),
                         frames(offset(3) + err("two") + offset(6) + exited(0)),
                         {.status = 204}});
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 0) << error_;
  EXPECT_EQ(out_, "one");
  EXPECT_EQ(error_, "two");
  for (const size_t again : {2U, 3U, 4U}) {
    EXPECT_EQ(server.seen()[again].line,
              "GET /sandboxes/sbx-1/sessions/s-1/attach?offset=3 HTTP/1.1");
  }
}

TEST_F(SessionCommands, lost_output_is_never_a_success) {
  ScriptedServer server(
      {started(), frames(offset(0) + out("a") + offset(100) + exited(0)), {.status = 204}});
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 125);
  EXPECT_TRUE(error_.contains("99 bytes")) << error_;
}

TEST_F(SessionCommands, what_breaks_the_protocol_is_an_error) {
  for (const std::string& wrong :
       {make_frame(Opcode::binary, ""), make_frame(Opcode::binary, "\3x"),
        make_frame(Opcode::text, "no json"), offset(10) + offset(3),
        make_frame(Opcode::text, R"({"type":"offset","offset":-1})"), std::string(20, '\xff')}) {
    ScriptedServer server({started(), frames(wrong), {.status = 204}});
    EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 125);
    EXPECT_TRUE(error_.starts_with("sandbox: error: ")) << error_;
    EXPECT_TRUE(server.seen().back().line.starts_with("DELETE ")) << "left behind";
  }
}

TEST_F(SessionCommands, a_start_whose_answer_got_lost_is_found_by_its_name) {
  ScriptedServer server({{.drop = true},
                         {.body = std::string(kSession)},
                         frames(offset(0) + exited(3)),
                         {.status = 204}});
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 3) << error_;
  const auto seen = server.seen();
  const std::string name = field(seen[0], "name");
  EXPECT_TRUE(name.starts_with("exec-")) << name;
  EXPECT_EQ(seen[1].line, base::cat("GET /sandboxes/sbx-1/sessions/", name, " HTTP/1.1"));
}

TEST_F(SessionCommands, a_start_that_did_not_arrive_is_made_again_under_the_same_name) {
  ScriptedServer server({failure(503, "draining"),
                         failure(404, "not_found"),
                         started(),
                         frames(offset(0) + exited(0)),
                         {.status = 204}});
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 0) << error_;
  EXPECT_EQ(server.seen()[0].body, server.seen()[2].body);
}

TEST_F(SessionCommands, a_refused_command_is_our_own_error) {
  ScriptedServer server({failure(422, "cwd_invalid")});
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 125);
  EXPECT_EQ(error_, "sandbox: error: cwd_invalid: m\n");
  EXPECT_EQ(server.seen().size(), 1U);
}

TEST_F(SessionCommands, timing_out_and_running_out_of_memory_are_told) {
  ScriptedServer late({started(),
                       frames(offset(0) + exited(124)),
                       {.body = R"({"id":"s-1","exit_code":124,"timed_out":true})"},
                       {.status = 204}});
  EXPECT_EQ(run(late, {"exec", "sbx-1", "--", "x"}), 124);
  EXPECT_TRUE(error_.contains("timed out")) << error_;
  ScriptedServer killed({started(),
                         frames(offset(0) + exited(137)),
                         {.body = R"({"id":"s-1","exit_code":137,"oom_killed":true})"},
                         {.status = 204}});
  EXPECT_EQ(run(killed, {"exec", "sbx-1", "--", "x"}), 137);
  EXPECT_TRUE(error_.contains("out of memory")) << error_;
}

TEST_F(SessionCommands, a_sandbox_that_ends_meanwhile_is_told) {
  ScriptedServer server({started(),
                         {.hang_up = true, .frames = {{.bytes = offset(0) + out("x")}}},
                         failure(404, "not_found"),
                         failure(404, "not_found")});
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 125);
  EXPECT_EQ(out_, "x");
  EXPECT_TRUE(error_.contains("not_found")) << error_;
}

TEST_F(SessionCommands, a_terminal_has_a_size_and_takes_input_by_the_stream) {
  ScriptedServer server(
      {started(),
       {.frames = {{.bytes = offset(0)}, {.bytes = out("hi") + exited(0), .after_bytes = 21}}},
       {.status = 204}});
  use_input("keys");
  EXPECT_EQ(run(server, {"exec", "-t", "sbx-1", "--", "cat"}), 0) << error_;
  EXPECT_EQ(field(server.seen()[0], "tty"), R"({"cols":80,"rows":24})");
  EXPECT_EQ(server.seen()[1].body, std::string("\0keys\n", 6) + R"({"type":"eof"})" + "\n");
}

TEST_F(SessionCommands, run_deletes_after_the_command_and_after_a_failure) {
  ScriptedServer fine({{.status = 201, .body = std::string(kReady)},
                       {.body = std::string(kReady)},
                       started(),
                       frames(offset(0) + out("hi\n") + exited(3)),
                       {.status = 204}});
  EXPECT_EQ(run(fine, {"run", "debian", "--", "x"}), 3) << error_;
  EXPECT_EQ(out_, "hi\n");
  EXPECT_EQ(fine.seen().size(), 5U);
  EXPECT_TRUE(fine.seen().back().line.starts_with("DELETE /sandboxes/sbx-1?"));
  ScriptedServer failing({{.status = 201, .body = std::string(kFailed)},
                          {.body = std::string(kFailed)},
                          {.status = 204}});
  EXPECT_EQ(run(failing, {"run", "debian", "--", "x"}), 125);
  EXPECT_TRUE(failing.seen().back().line.starts_with("DELETE /sandboxes/sbx-1"));
}

// Runs the words with a signal that is pending from the start, in a process of its own (signals
// stay blocked in it), and ends with its exit code if the requests were these.
[[noreturn]] void run_interrupted(const std::vector<std::string>& words,
                                  std::deque<ScriptedAnswer> script,
                                  const std::vector<std::string>& lines) {
  auto interrupt = Interrupt::open();
  Console console(STDOUT_FILENO, STDERR_FILENO, *interrupt);
  const base::RealClock clock;
  base::KernelRandom random;
  ScriptedServer server(std::move(script));
  const Environment environment{.url = server.url(), .token = "t"};
  ::raise(SIGINT);
  const int code = run_application(words, environment, console, *interrupt, clock, random);
  const auto seen = server.seen();
  bool expected = seen.size() == lines.size();
  for (size_t i = 0; i < seen.size(); ++i) {
    expected = expected && seen[i].line.starts_with(lines[i]);
    (void)console.write_error(seen[i].line + "\n");
  }
  ::_exit(expected ? code : 1);
}

TEST_F(SessionCommands, a_signal_cancels_and_ends_with_130) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_interrupted({"exec", "-n", "sbx-1", "--", "x"},
                              {started(),
                               {.status = 204},
                               frames(offset(0) + out("last words") + exited(143)),
                               failure(404, "not_found")},
                              {"POST /sandboxes/sbx-1/sessions", "DELETE /sandboxes/sbx-1/sessions",
                               "GET /sandboxes/sbx-1/sessions/s-1/attach", "DELETE "}),
              testing::ExitedWithCode(130), "");
}

TEST_F(SessionCommands, an_interrupted_run_still_deletes_its_sandbox) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_interrupted({"run", "debian", "--", "x"},
                              {{.status = 201, .body = std::string(kReady)}, {.status = 204}},
                              {"POST /sandboxes", "DELETE /sandboxes/sbx-1"}),
              testing::ExitedWithCode(130), "");
}

TEST_F(SessionCommands, shell_asks_for_a_terminal_and_comes_back_to_the_same_shell) {
  ScriptedServer server(
      {{.hang_up = true,
        .frames = {{.bytes = offset(50) + out("$ ") + offset(52), .after_requests = 2}}},
       {.body = std::string(kSession)},
       frames(offset(52) + out("bye") + exited(5))});
  EXPECT_EQ(run(server, {"shell", "sbx-1", "--session", "mine"}), 5) << error_;
  EXPECT_EQ(out_, "$ bye");
  const auto seen = server.seen();
  EXPECT_EQ(seen[0].line, "GET /sandboxes/sbx-1/terminal?cols=80&rows=24&session=mine HTTP/1.1");
  EXPECT_EQ(seen[1].line, "GET /sandboxes/sbx-1/sessions/mine HTTP/1.1");
  EXPECT_EQ(seen[2].line, "GET /sandboxes/sbx-1/sessions/s-1/attach?offset=52 HTTP/1.1");
}

TEST_F(SessionCommands, a_refused_shell_says_why) {
  ScriptedServer server({failure(409, "not_ready")});
  EXPECT_EQ(run(server, {"shell", "sbx-1"}), 125);
  EXPECT_EQ(error_, "sandbox: error: not_ready: m\n");
}

TEST_F(SessionCommands, start_prints_the_id_and_leaves_it_running) {
  ScriptedServer server({started()});
  EXPECT_EQ(run(server,
                {"sessions", "start", "sbx-1", "--name", "web", "--log-limit", "2", "--", "serve"}),
            0)
      << error_;
  EXPECT_EQ(out_, "s-1\n");
  EXPECT_EQ(field(server.seen()[0], "name"), "web");
  EXPECT_EQ(field(server.seen()[0], "log_limit_bytes"), "2097152");
  EXPECT_EQ(field(server.seen()[0], "stdin"), "true");
}

TEST_F(SessionCommands, logs_end_at_what_was_written_and_tell_the_streams_apart) {
  const std::string past = offset(0) + out("ab") + offset(2) + err("c") + offset(3);
  for (const auto& [stream, wanted_out, wanted_error] :
       {std::tuple{"both", "ab", "c"}, {"stdout", "ab", ""}, {"stderr", "", "c"}}) {
    ScriptedServer server({{.body = std::string(kSession)}, frames(past)});
    EXPECT_EQ(run(server, {"sessions", "logs", "sbx-1", "s-1", "--stream", stream}), 0) << error_;
    EXPECT_EQ(out_, wanted_out);
    EXPECT_EQ(error_, wanted_error);
  }
  ScriptedServer followed(
      {{.body = std::string(kSession)}, frames(offset(0) + out("ab") + exited(9))});
  EXPECT_EQ(run(followed, {"sessions", "logs", "sbx-1", "s-1", "-f"}), 0) << error_;
  EXPECT_EQ(out_, "ab");
}

TEST_F(SessionCommands, attach_begins_at_the_end_and_gives_the_exit_code) {
  ScriptedServer server(
      {{.body = std::string(kSession)}, frames(offset(3) + out("new") + exited(6))});
  EXPECT_EQ(run(server, {"sessions", "attach", "sbx-1", "s-1"}), 6) << error_;
  EXPECT_EQ(out_, "new");
  EXPECT_TRUE(server.seen()[1].line.contains("/attach?offset=3 "));
}

TEST_F(SessionCommands, write_kill_resize_and_rm_are_one_request_each) {
  const std::vector<std::tuple<std::vector<std::string>, std::string, std::string>> cases = {
      {{"sessions", "write", "sbx-1", "s-1", "a line", "--eof"},
       "POST /sandboxes/sbx-1/sessions/s-1/stdin?eof=1 HTTP/1.1",
       "a line\n"},
      {{"sessions", "write", "sbx-1", "s-1"},
       "POST /sandboxes/sbx-1/sessions/s-1/stdin HTTP/1.1",
       "piped"},
      {{"sessions", "kill", "sbx-1", "web", "-s", "HUP"},
       "POST /sandboxes/sbx-1/sessions/web/kill HTTP/1.1",
       R"({"signal":"HUP"})"},
      {{"sessions", "resize", "sbx-1", "s-1", "100", "30"},
       "POST /sandboxes/sbx-1/sessions/s-1/resize HTTP/1.1",
       R"({"cols":100,"rows":30})"},
      {{"sessions", "rm", "sbx-1", "s-1"}, "DELETE /sandboxes/sbx-1/sessions/s-1 HTTP/1.1", ""}};
  for (const auto& [words, line, body] : cases) {
    use_input("piped");
    ScriptedServer server({{.body = "{}"}});
    EXPECT_EQ(run(server, words), 0) << error_;
    EXPECT_EQ(server.seen()[0].line, line);
    EXPECT_EQ(server.seen()[0].body, body);
  }
}

TEST_F(SessionCommands, logs_behind_the_end_are_an_error_and_no_empty_output) {
  ScriptedServer server({{.body = std::string(kSession)}, {.body = std::string(kSession)}});
  EXPECT_EQ(run(server, {"sessions", "logs", "sbx-1", "s-1", "--offset", "4"}), 125);
  EXPECT_TRUE(error_.contains("range_not_satisfiable: the session's output ends at 3")) << error_;
  EXPECT_EQ(run(server, {"sessions", "logs", "sbx-1", "s-1", "--offset", "3"}), 0) << error_;
}

TEST_F(SessionCommands, list_and_get_show_what_is_known) {
  const std::string session =
      R"({"id":"s-1","name":"web","state":"exited","exit_code":137,"signal":"KILL",)"
      R"("oom_killed":true,"argv":["sh","-c","a b"],"tty":{"cols":80,"rows":24},)"
      R"("log":{"start_offset":0,"end_offset":2048,"dropped_bytes":0}})";
  ScriptedServer server({{.body = base::cat(R"({"items":[)", session, "]}")}, {.body = session}});
  EXPECT_EQ(run(server, {"sessions", "ls", "sbx-1"}), 0) << error_;
  EXPECT_TRUE(out_.contains("137 (KILL) (out of memory)") && out_.contains("sh -c 'a b'")) << out_;
  EXPECT_EQ(run(server, {"sessions", "get", "sbx-1", "web"}), 0) << error_;
  EXPECT_TRUE(out_.contains("80 x 24") && out_.contains("2.0 KiB")) << out_;
}

}  // namespace
}  // namespace cli
