#include "agent/attach.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "agent/agent_testing.h"
#include "agent/viewer_testing.h"
#include "base/sys.h"

namespace agent {
namespace {

using wire::json::Object;
using wire::websocket::make_masked_frame;
using wire::websocket::Opcode;

std::string start(const TestAgent& agent, std::string body) {
  const Answer answer =
      agent.ask({.method = "POST", .target = "/sessions", .body = std::move(body), .headers = ""});
  EXPECT_EQ(answer.status, 201) << answer.body;
  return base::cat("/sessions/", text_of(answer.json(), "id"));
}

TEST(Attach, passes_both_ways_and_tells_the_exit) {
  const TestAgent agent;
  const std::string path =
      start(agent, R"({"command":"read x; echo got $x; echo err >&2; cat; kill -TERM $$"})");
  Viewer viewer(agent, path + "/attach");
  viewer.type("hello\n");
  EXPECT_TRUE(viewer.sees("got hello\n"));
  viewer.send(Opcode::ping, "ping");
  viewer.type("more");
  EXPECT_TRUE(viewer.sees("more"));
  viewer.order(R"({"type":"eof"})");
  viewer.watch_to_the_end();
  EXPECT_EQ(viewer.err_, "err\n");
  EXPECT_EQ(viewer.pongs_, 1);
  EXPECT_EQ(viewer.first_offset_, 0);
  EXPECT_EQ(viewer.offset_, static_cast<int64_t>(viewer.shown_.size()));
  ASSERT_EQ(viewer.told_.size(), 1U);
  EXPECT_EQ(text_of(viewer.told_[0], "type"), "exit");
  EXPECT_EQ(viewer.told_[0].at("exit_code").as_int64(), 143);
  EXPECT_EQ(text_of(viewer.told_[0], "signal"), "TERM");
  EXPECT_EQ(viewer.close_code_, 1000);
  // Later all of it comes again, or what is behind an offset.
  Viewer again(agent, path + "/attach?offset=4");
  again.watch_to_the_end();
  EXPECT_EQ(again.shown_, viewer.shown_.substr(4));
}

TEST(Attach, a_flood_is_whole_for_one_that_reads) {
  const TestAgent agent;
  const std::string path = start(agent, R"({"command":"read x; seq 1 1000000"})");
  Viewer viewer(agent, path + "/attach");
  viewer.type("\n");
  viewer.watch_to_the_end();
  EXPECT_EQ(viewer.shown_.size(), 6'888'896U);
  EXPECT_TRUE(viewer.shown_.ends_with("999999\n1000000\n"));
  EXPECT_EQ(viewer.offset_, 6'888'896);
}

TEST(Attach, a_client_that_goes_away_does_not_end_the_session_and_can_come_back) {
  const TestAgent agent;
  const std::string path = start(agent, R"({"command":"while read x; do echo got $x; done"})");
  std::string seen;
  int64_t offset = 0;
  for (int i = 0; i < 5; ++i) {
    Viewer viewer(agent, base::cat(path, "/attach?offset=", offset));
    viewer.type(base::cat(i, "\n"));
    EXPECT_TRUE(viewer.sees(base::cat("got ", i, "\n")));
    seen += viewer.shown_;
    offset += static_cast<int64_t>(viewer.shown_.size());
    i % 2 == 0 ? viewer.leave() : viewer.send(Opcode::close, "");
  }
  EXPECT_EQ(seen, "got 0\ngot 1\ngot 2\ngot 3\ngot 4\n");
  EXPECT_EQ(text_of(agent.ask({.target = path}).json(), "state"), "running");
}

// Long enough that a busy machine does not make a client look dead.
constexpr StreamPatience kShortPatience{.silence = base::Milliseconds(100),
                                        .dead_peer = base::Milliseconds(3'000)};

TEST(Attach, a_silent_client_that_answers_pings_stays) {
  const TestAgent agent({}, kShortPatience);
  const std::string path = start(agent, R"({"argv":["cat"]})");
  Viewer viewer(agent, path + "/attach");
  EXPECT_TRUE(viewer.is_pinged(40));  // for longer than a dead one is borne
  viewer.type("there\n");
  EXPECT_TRUE(viewer.sees("there\n"));
}

TEST(Attach, a_client_that_answers_no_ping_is_given_up_and_its_session_goes_on) {
  const TestAgent agent({}, kShortPatience);
  const std::string path = start(agent, R"({"argv":["cat"]})");
  Viewer viewer(agent, path + "/attach");
  viewer.answers_pings_ = false;
  EXPECT_FALSE(viewer.is_pinged(1'000));
  EXPECT_GE(viewer.pings_, 3);
  EXPECT_EQ(viewer.close_code_, 0);
  EXPECT_EQ(text_of(agent.ask({.target = path}).json(), "state"), "running");
}

TEST(Attach, a_client_that_answers_no_ping_stays_while_it_takes_output) {
  const TestAgent agent({}, kShortPatience);
  const std::string path =
      start(agent, R"({"command":"for i in $(seq 1 20); do echo $i; sleep 0.3; done; echo end"})");
  Viewer viewer(agent, path + "/attach");
  viewer.answers_pings_ = false;
  EXPECT_TRUE(viewer.sees("end\n"));
}

TEST(Attach, wrong_frames_and_messages_are_refused_with_their_codes) {
  const TestAgent agent;
  const std::string path = start(agent, R"({"argv":["sleep","600"]})");
  struct Row {
    std::string bytes;
    int code;
  };
  const auto frame = [](Opcode opcode, std::string_view payload) {
    return make_masked_frame(opcode, payload, {'a', 'b', 'c', 'd'});
  };
  for (const Row& row :
       {Row{"\x82\x01x", 1002}, Row{frame(Opcode::text, "\xFF"), 1007},
        Row{frame(Opcode::binary, std::string(1024 * 1024 + 1, 'x')), 1009},
        Row{frame(Opcode::binary, "\x01output"), 1008}, Row{frame(Opcode::binary, ""), 1008},
        Row{frame(Opcode::text, "{"), 1008}, Row{frame(Opcode::text, "{}"), 1008},
        Row{frame(Opcode::text, R"({"type":"other"})"), 1008},
        Row{frame(Opcode::text, R"({"type":"signal","signal":"NONE"})"), 1008},
        Row{frame(Opcode::text, R"({"type":"resize","cols":80,"rows":24})"), 1008},
        Row{frame(Opcode::text, R"({"type":"eof","x":1})"), 1008}}) {
    Viewer viewer(agent, path + "/attach");
    viewer.send_raw(row.bytes);
    viewer.watch_to_the_end();
    EXPECT_EQ(viewer.close_code_, row.code) << row.bytes.substr(0, 60);
    EXPECT_FALSE(viewer.close_reason_.empty());
  }
  EXPECT_EQ(agent.ask({.target = path + "/attach"}).error_code(), "malformed");
  EXPECT_EQ(agent
                .ask({.target = path + "/attach?offset=1",
                      .headers = "connection: Upgrade\r\nupgrade: websocket\r\n"})
                .status,
            416);
  Viewer viewer(agent, path + "/attach");
  viewer.order(R"({"type":"signal","signal":"KILL"})");
  viewer.watch_to_the_end();
  EXPECT_EQ(viewer.told_.at(0).at("exit_code").as_int64(), 137);
}

// Whatever the profile of the user who runs the tests does.
Config without_profile() { return Config{.environment = {{"HOME", "/nonexistent"}}, .user = ""}; }

// PT-01, PT-02
TEST(Terminal, the_first_program_sees_size_and_terminal) {
  const TestAgent agent(without_profile());
  Viewer viewer(agent, "/terminal?cols=137&rows=41");
  viewer.type("stty size; tty; echo $TERM-$0-$((40+2))\n");
  EXPECT_TRUE(viewer.sees("41 137\r\n"));
  EXPECT_TRUE(viewer.sees("/dev/pts/"));
  EXPECT_TRUE(viewer.sees("xterm-256color--"));
  EXPECT_TRUE(viewer.sees("-42"));
  EXPECT_EQ(viewer.shown_.find("job control"), std::string::npos);
  viewer.type("sh -c 'echo sleeps-$((1+1)); exec sleep 100'\n");
  EXPECT_TRUE(viewer.sees("sleeps-2"));
  viewer.type("\x03");
  viewer.type("echo rc=$?-$((1+1))\n");
  EXPECT_TRUE(viewer.sees("rc=130-2"));
  viewer.order(R"({"type":"resize","cols":100,"rows":30})");
  viewer.type("stty size\n");
  EXPECT_TRUE(viewer.sees("30 100\r\n"));
  viewer.type("sh -c 'echo cat-$((1+1)); exec cat'\n");
  EXPECT_TRUE(viewer.sees("cat-2"));
  viewer.order(R"({"type":"eof"})");
  viewer.type("exit 7\n");
  viewer.watch_to_the_end();
  EXPECT_EQ(viewer.told_.at(0).at("exit_code").as_int64(), 7);
  EXPECT_EQ(viewer.close_code_, 1000);
}

// PT-04
TEST(Terminal, the_same_shell_is_found_again_with_its_screen) {
  const TestAgent agent(without_profile());
  std::string pid;
  {
    Viewer viewer(agent, "/terminal?session=mine");
    viewer.type("stty size; echo pid=$$.; for i in $(seq 1 500); do echo line-$i.; done\n");
    EXPECT_TRUE(viewer.sees("24 80\r\n"));
    EXPECT_TRUE(viewer.sees("line-500."));
    const size_t at = viewer.shown_.find("pid=", viewer.shown_.find("24 80"));
    pid = viewer.shown_.substr(at, viewer.shown_.find('.', at) - at);
  }
  Viewer again(agent, "/terminal?session=mine&cols=100&rows=30");
  EXPECT_TRUE(again.sees("line-500."));
  EXPECT_NE(again.shown_.find("line-1.\r\n"), std::string::npos);
  again.type("echo again pid=$$.; stty size\n");
  EXPECT_TRUE(again.sees("again " + pid + "."));
  EXPECT_TRUE(again.sees("30 100\r\n"));
  Viewer other(agent, "/terminal?session=other");
  other.type("echo pid=$$.\n");
  EXPECT_TRUE(other.sees("pid="));
  EXPECT_EQ(other.shown_.find(pid), std::string::npos);
}

TEST(Terminal, a_long_past_begins_at_a_line) {
  const TestAgent agent(without_profile());
  {
    Viewer viewer(agent, "/terminal");
    // No prompt behind it, which would come after the other has begun.
    viewer.type(
        "for i in $(seq 1 60000); do echo line-$i.; done; echo done-$((1+1)); exec sleep 600\n");
    EXPECT_TRUE(viewer.sees("done-2"));
  }
  Viewer again(agent, "/terminal");
  EXPECT_TRUE(again.sees("done-2"));
  EXPECT_LE(again.shown_.size(), 256U * 1024);
  EXPECT_GT(again.shown_.size(), 250U * 1024);
  EXPECT_TRUE(again.shown_.starts_with("line-"));
}

TEST(Terminal, a_background_job_outlives_its_shell_and_wrong_requests_are_refused) {
  const TestAgent agent(without_profile());
  Viewer viewer(agent, "/terminal");
  viewer.type("sleep 600 & echo $! > job.new; mv job.new job; exit\n");
  viewer.watch_to_the_end();
  const auto text = base::sys::read_file(agent.folder() + "/job", 100);
  ASSERT_TRUE(text.has_value());
  const auto job = base::parse_number<pid_t>(base::split(*text, '\n')[0]);
  EXPECT_EQ(::kill(*job, SIGKILL), 0);
  const auto refused = [&](std::string target) {
    return agent.ask(
        {.target = std::move(target), .headers = "connection: Upgrade\r\nupgrade: websocket\r\n"});
  };
  EXPECT_EQ(refused("/terminal?cols=0").error_code(), "invalid_field");
  EXPECT_EQ(refused("/terminal?rows=70000").error_code(), "invalid_field");
  EXPECT_EQ(refused("/terminal?session=a%20b").error_code(), "invalid_field");
  EXPECT_EQ(agent.ask({.target = "/terminal"}).error_code(), "malformed");
  start(agent, R"({"argv":["sleep","600"],"name":"plain"})");
  EXPECT_EQ(refused("/terminal?session=plain").error_code(), "conflict");
}

}  // namespace
}  // namespace agent
