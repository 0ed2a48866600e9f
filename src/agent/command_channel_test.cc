#include "agent/command_channel.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "agent/viewer_testing.h"
#include "base/sys.h"

namespace agent {
namespace {

using wire::websocket::make_masked_frame;
using wire::websocket::Opcode;

constexpr std::string_view kTarget = "/command";

std::string shell(std::string_view command, std::string_view more = "") {
  return base::cat("{\"command\":", json_text(command), more, "}");
}

int64_t exit_of(const Viewer& viewer) {
  return viewer.told_.empty() ? -1 : viewer.told_.back().at("exit_code").as_int64();
}

// The number that a command of the test's has written to that file.
pid_t pid_in(const TestAgent& agent, std::string_view name) {
  pid_t pid = 0;
  EXPECT_TRUE(eventually([&] {
    const auto text = base::sys::read_file(base::cat(agent.folder(), "/", name), 100);
    pid = text ? base::parse_number<pid_t>(base::split(*text, '\n')[0]).value_or(0) : 0;
    return pid > 0;
  }));
  return pid;
}

bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }

// Writes its number to the file `child`, for the command to go on from there.
constexpr std::string_view kChild =
    "sh -c 'echo $$ > child.new; mv child.new child; exec sleep 600'";

void forget_child(const TestAgent& agent) {
  EXPECT_EQ(agent.shell("rm -f child").at("exit_code").as_int64(), 0);
}

TEST(CommandChannel, passes_all_streams_both_ways_and_tells_the_end_behind_them) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget, shell("cat; echo err >&2; echo $A; exit 3", R"(,"env":{"A":"b"})"));
  viewer.type("one ");
  viewer.type("two\n");
  viewer.order(R"({"type":"eof"})");
  viewer.watch_to_the_end();
  EXPECT_TRUE(viewer.shown_.starts_with("one two\n")) << viewer.shown_;
  EXPECT_TRUE(viewer.shown_.contains("b\n"));
  EXPECT_EQ(viewer.err_, "err\n");
  EXPECT_EQ(exit_of(viewer), 3);
  EXPECT_TRUE(viewer.told_.back().at("signal").is_null());
  EXPECT_EQ(viewer.close_code_, 1000);
  EXPECT_EQ(viewer.first_offset_, -1) << "nothing is kept, so there are no offsets";
}

TEST(CommandChannel, a_flood_comes_whole_before_the_end) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget, shell("seq 1 1000000; exit 4"));
  viewer.watch_to_the_end();
  EXPECT_EQ(viewer.shown_.size(), 6'888'896U);
  EXPECT_TRUE(viewer.shown_.ends_with("999999\n1000000\n"));
  EXPECT_EQ(exit_of(viewer), 4);
}

TEST(CommandChannel, a_reader_that_stands_still_holds_the_command_up) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget, shell("seq 1 100000000; touch done"));
  ASSERT_TRUE(viewer.sees("1\n2\n"));
  // The command has filled every buffer there is when it no longer runs.
  ASSERT_TRUE(eventually(
      [&] { return agent.shell("ps -o stat= -C seq").at("stdout").as_string().starts_with("S"); }));
  EXPECT_EQ(agent.shell("test -e done").at("exit_code").as_int64(), 1);
}

TEST(CommandChannel, output_that_nobody_reads_any_more_is_refused_and_the_rest_goes_on) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget, shell("yes; echo $? >&2; cat >&2; exit 5"));
  ASSERT_TRUE(viewer.sees("y\n"));
  viewer.order(R"({"type":"output_closed"})");
  viewer.type("input");
  viewer.order(R"({"type":"eof"})");
  viewer.watch_to_the_end();
  EXPECT_EQ(viewer.err_, "141\ninput");
  EXPECT_EQ(exit_of(viewer), 5);
  // A terminal has one output for all.
  Viewer terminal(agent, kTarget, shell("read -r a; echo $a", R"(,"tty":{"cols":80,"rows":24})"));
  terminal.order(R"({"type":"output_closed"})");
  terminal.type("word\n");
  terminal.watch_to_the_end();
  EXPECT_TRUE(terminal.shown_.contains("word\r\nword\r\n")) << terminal.shown_;
}

TEST(CommandChannel, death_by_signal_an_order_and_a_missing_program_are_told) {
  const TestAgent agent;
  Viewer killed(agent, kTarget, shell("kill -SEGV $$"));
  killed.watch_to_the_end();
  EXPECT_EQ(exit_of(killed), 139);
  EXPECT_EQ(text_of(killed.told_.back(), "signal"), "SEGV");
  Viewer ordered(agent, kTarget, shell("echo ready; exec sleep 600"));
  ASSERT_TRUE(ordered.sees("ready\n"));
  ordered.order(R"({"type":"signal","signal":"USR1"})");
  ordered.watch_to_the_end();
  EXPECT_EQ(text_of(ordered.told_.back(), "signal"), "USR1");
  Viewer missing(agent, kTarget, R"({"argv":["no-such-program"]})");
  missing.watch_to_the_end();
  EXPECT_EQ(exit_of(missing), 127);
  EXPECT_TRUE(missing.err_.contains("no-such-program")) << missing.err_;
}

TEST(CommandChannel, a_background_child_does_not_keep_it_open_and_lives_on) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget,
                shell(base::cat(kChild, " & while [ ! -e child ]; do sleep 0.01; done; echo out")));
  viewer.watch_to_the_end();
  EXPECT_EQ(viewer.shown_, "out\n");
  EXPECT_EQ(exit_of(viewer), 0);
  const pid_t child = pid_in(agent, "child");
  EXPECT_TRUE(alive(child));
  ::kill(child, SIGKILL);
}

TEST(CommandChannel, a_client_that_leaves_ends_the_whole_tree) {
  const TestAgent agent;
  for (const bool half : {false, true}) {
    forget_child(agent);
    Viewer viewer(agent, kTarget, shell(base::cat("setsid ", kChild, " & sleep 600")));
    const pid_t child = pid_in(agent, "child");
    half ? viewer.half_close() : viewer.leave();
    EXPECT_TRUE(eventually([child] { return !alive(child); })) << half;
  }
  EXPECT_TRUE(eventually([&] {
    return agent.ask({.target = "/activity"}).json().at("running_commands").as_int64() == 0;
  }));
}

// What an editor's server does, so that a client that was cut off finds it again.
TEST(CommandChannel, what_uses_the_connection_no_more_outlives_its_client) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget,
                shell(base::cat(kChild,
                                " > /dev/null 2>&1 < /dev/null & "
                                "(trap '' TERM; exec sleep 601) & "
                                "echo ready; cat")));
  ASSERT_TRUE(viewer.sees("ready\n"));
  const pid_t child = pid_in(agent, "child");
  viewer.leave();
  // Who does not heed TERM and uses the connection is killed.
  EXPECT_TRUE(eventually(
      [&] { return agent.shell("pgrep -fx 'sleep 601'").at("exit_code").as_int64() == 1; }));
  EXPECT_TRUE(alive(child));
  ::kill(child, SIGKILL);
}

TEST(CommandChannel, what_breaks_the_protocol_ends_the_command) {
  const TestAgent agent;
  const std::array<char, 4> mask{'a', 'b', 'c', 'd'};
  for (const std::string& wrong :
       {std::string("\x82\x01x"), make_masked_frame(Opcode::binary, "\x01output", mask),
        make_masked_frame(Opcode::binary, "", mask), make_masked_frame(Opcode::text, "{", mask),
        make_masked_frame(Opcode::text, R"({"type":"other"})", mask),
        make_masked_frame(Opcode::close, "", mask)}) {
    forget_child(agent);
    Viewer viewer(agent, kTarget, shell(base::cat("exec ", kChild)));
    const pid_t child = pid_in(agent, "child");
    viewer.send_raw(wrong);
    EXPECT_TRUE(eventually([child] { return !alive(child); }));
  }
}

TEST(CommandChannel, a_terminal_has_its_size_at_once_and_later) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget,
                shell("stty size; read x; stty size; exit 5", R"(,"tty":{"cols":99,"rows":33})"));
  ASSERT_TRUE(viewer.sees("33 99\r\n"));
  viewer.order(R"({"type":"resize","cols":100,"rows":30})");
  viewer.type("go\n");
  EXPECT_TRUE(viewer.sees("30 100\r\n"));
  viewer.watch_to_the_end();
  EXPECT_EQ(exit_of(viewer), 5);
}

TEST(CommandChannel, a_client_that_leaves_hangs_its_terminal_up) {
  const TestAgent agent;
  Viewer viewer(agent, kTarget,
                shell(base::cat("trap 'echo hup > told; exit' HUP; setsid ", kChild,
                                " & while :; do sleep 0.05; done"),
                      R"(,"tty":{"cols":80,"rows":24})"));
  const pid_t child = pid_in(agent, "child");
  viewer.leave();
  EXPECT_TRUE(
      eventually([&] { return agent.shell("cat told").at("stdout").as_string() == "hup\n"; }));
  EXPECT_TRUE(alive(child)) << "who has left the terminal is not hung up";
  ::kill(child, SIGKILL);
}

TEST(CommandChannel, a_login_shell_is_the_users) {
  const TestAgent agent(Config{.environment = {{"HOME", "/nonexistent"}}, .user = ""});
  Viewer viewer(agent, kTarget, R"({"login_shell":true,"tty":{"cols":80,"rows":24}})");
  viewer.type("echo is=$0.; exit 6\n");
  viewer.watch_to_the_end();
  EXPECT_TRUE(viewer.shown_.contains("is=-")) << viewer.shown_;
  EXPECT_EQ(exit_of(viewer), 6);
}

TEST(CommandChannel, what_cannot_be_started_is_an_ordinary_error) {
  const TestAgent agent;
  struct Row {
    const char* body;
    int status;
    const char* code;
  };
  for (const Row& row : {Row{"{", 400, "malformed"}, Row{"{}", 422, "missing_field"},
                         Row{R"({"argv":["a"],"name":"x"})", 422, "unknown_field"},
                         Row{R"({"argv":["a"],"stdin":true})", 422, "unknown_field"},
                         Row{R"({"argv":["a"],"tty":{"cols":0,"rows":1}})", 422, "invalid_field"},
                         Row{R"({"argv":["a"],"cwd":"/no/such"})", 422, "cwd_invalid"},
                         Row{R"({"argv":["a"],"user":"no-such"})", 422, "user_unknown"}}) {
    const Answer answer = agent.ask({.method = "POST",
                                     .target = std::string(kTarget),
                                     .body = row.body,
                                     .headers = "connection: Upgrade\r\nupgrade: websocket\r\n"});
    EXPECT_EQ(answer.status, row.status) << row.body;
    EXPECT_EQ(answer.error_code(), row.code) << row.body;
  }
  EXPECT_EQ(agent.ask({.target = "/activity"}).json().at("running_commands").as_int64(), 0);
}

}  // namespace
}  // namespace agent
