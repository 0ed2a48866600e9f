#include "agent/run.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "agent/agent_testing.h"
#include "agent/output_store.h"
#include "agent/sha256.h"
#include "base/sys.h"

namespace agent {
namespace {

using wire::json::Object;

int exit_code(const Object& object) { return static_cast<int>(object.at("exit_code").as_int64()); }

Answer post_run(const TestAgent& agent, std::string body) {
  return agent.ask({.method = "POST", .target = "/run", .body = std::move(body), .headers = ""});
}

// The number a command wrote into a file of the agent's folder, once it is there.
pid_t read_pid(const TestAgent& agent, const std::string& name) {
  pid_t pid = 0;
  EXPECT_TRUE(eventually([&] {
    const auto text = base::sys::read_file(agent.folder() + "/" + name, 100);
    pid = text ? base::parse_number<pid_t>(text->substr(0, text->find('\n'))).value_or(0) : 0;
    return pid > 0;
  }));
  return pid;
}

bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST(Run, gives_output_and_exit_code) {
  const TestAgent agent;
  const Object answer = agent.shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(exit_code(answer), 3);
  EXPECT_EQ(text_of(answer, "stdout"), "out\n");
  EXPECT_EQ(text_of(answer, "stderr"), "err\n");
  EXPECT_TRUE(answer.at("signal").is_null());
  EXPECT_FALSE(answer.at("timed_out").as_bool());
  EXPECT_FALSE(answer.at("truncated").as_bool());
}

// EX-01
TEST(Run, ends_with_the_command_though_a_child_holds_its_output) {
  const TestAgent agent;
  for (const char* command : {"echo started; sleep 600 & echo $! > child; exit 3",
                              "echo started; setsid sleep 600 & echo $! > child; exit 3"}) {
    const Object answer = agent.shell(command);
    EXPECT_EQ(exit_code(answer), 3);
    EXPECT_EQ(text_of(answer, "stdout"), "started\n");
    const pid_t child = read_pid(agent, "child");
    EXPECT_TRUE(alive(child));
    ::kill(child, SIGKILL);
    EXPECT_TRUE(eventually([child] { return !alive(child); }));
  }
}

TEST(Run, drops_what_a_background_child_writes_later_without_stopping_it) {
  const TestAgent agent;
  const Object answer = agent.shell(
      "(while [ ! -e go ]; do sleep 0.01; done; head -c 300000 /dev/zero; echo late; "
      "touch finished) & exit 0");
  EXPECT_EQ(text_of(answer, "stdout"), "");
  EXPECT_EQ(exit_code(agent.shell("touch go")), 0);
  EXPECT_TRUE(
      eventually([&] { return ::access((agent.folder() + "/finished").c_str(), F_OK) == 0; }));
}

// EX-02
TEST(Run, a_timeout_ends_the_whole_tree_but_no_server_of_an_earlier_command) {
  const TestAgent agent;
  [[maybe_unused]] const Object first = agent.shell("setsid sleep 600 & echo $! > old; exit 0");
  const pid_t old = read_pid(agent, "old");
  const Object answer =
      agent.run(R"({"timeout_sec":0.3,"command":"sleep 600 & echo $! > a; )"
                R"(setsid sh -c 'echo $$ > b; sleep 600' & )"
                R"((trap '' TERM; sleep 600 & echo $! > c; wait; sleep 600) & wait"})");
  EXPECT_EQ(exit_code(answer), 124);
  EXPECT_TRUE(answer.at("timed_out").as_bool());
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_FALSE(alive(read_pid(agent, name))) << name;
  }
  EXPECT_TRUE(alive(old));
  ::kill(old, SIGKILL);
}

TEST(Run, a_client_that_leaves_ends_the_tree_half_closed_or_not) {
  const TestAgent agent;
  for (const bool half : {true, false}) {
    TestClient client(agent.socket_path());
    client.send({.method = "POST",
                 .target = "/run",
                 .body = R"({"command":"rm -f child; setsid sleep 600 & echo $! > child; wait"})",
                 .headers = ""});
    const pid_t child = read_pid(agent, "child");
    half ? client.half_close() : client.close();
    EXPECT_TRUE(eventually([child] { return !alive(child); }));
    ::unlink((agent.folder() + "/child").c_str());
  }
  EXPECT_TRUE(eventually([&] {
    return text_of(agent.ask({.target = "/activity"}).json(), "x").empty() &&
           agent.ask({.target = "/activity"}).json().at("running_commands").as_int64() == 0;
  }));
}

// EX-04
TEST(Run, a_big_output_is_whole_also_with_a_quick_exit) {
  const TestAgent agent;
  const Object answer = agent.shell("seq 1 2000000");
  const std::string out = text_of(answer, "stdout");
  EXPECT_EQ(out.size(), 14'888'896U);
  Sha256 hash;
  hash.add(out);
  // seq 1 2000000 | sha256sum
  EXPECT_EQ(hash.finish(), "d2d7c0abc3eb76d91b0b5a2702e92a9f2908269c9c1b3604bdfe2521c71d6274");
  EXPECT_FALSE(answer.at("truncated").as_bool());
}

TEST(Run, past_the_limit_the_small_stream_is_whole_and_the_big_one_is_cut_in_the_middle) {
  const TestAgent agent;
  const Object answer =
      agent.shell("echo error >&2; echo begin; head -c 40000000 /dev/zero | tr '\\0' x; echo end");
  const std::string out = text_of(answer, "stdout");
  EXPECT_EQ(text_of(answer, "stderr"), "error\n");
  EXPECT_EQ(out.size(), kOutputBytesMax - 6);
  EXPECT_TRUE(out.starts_with("begin\nxxx"));
  EXPECT_TRUE(out.ends_with("xxxend\n"));
  EXPECT_TRUE(answer.at("truncated").as_bool());
  EXPECT_EQ(answer.at("stdout_dropped_bytes").as_int64(),
            40'000'010 - static_cast<int64_t>(out.size()));
  EXPECT_EQ(answer.at("stderr_dropped_bytes").as_int64(), 0);
}

// EX-06
TEST(Run, a_character_cut_between_writes_stays_whole) {
  const TestAgent agent;
  const Object cut = agent.shell(
      "printf '\\342'; sleep 0.05; printf '\\202'; sleep 0.05; printf '\\254\\n'; "
      "printf '\\360\\237' >&2; sleep 0.05; printf '\\231\\202' >&2");
  EXPECT_EQ(text_of(cut, "stdout"), "€\n");
  EXPECT_EQ(text_of(cut, "stderr"), "🙂");
  const Object lines =
      agent.shell("yes '─' | tr -d '\\n' | head -c 3000000 | dd bs=4095 2>/dev/null");
  const std::string text = text_of(lines, "stdout");
  EXPECT_EQ(text.size(), 3'000'000U);
  EXPECT_EQ(text.find("\uFFFD"), std::string::npos);
  EXPECT_EQ(text_of(agent.shell("printf 'a\\342\\202'"), "stdout"), "a\uFFFD");
  EXPECT_EQ(text_of(agent.shell("printf 'a\\0b\\377'"), "stdout"), std::string("a\0b\uFFFD", 6));
}

TEST(Run, base64_gives_the_bytes_themselves) {
  const TestAgent agent;
  const Object small = agent.run(R"({"command":"printf 'a\\377'","encoding":"base64"})");
  EXPECT_EQ(text_of(small, "stdout"), "Yf8=");
  const Object big = agent.run(R"({"command":"head -c 200000 /dev/zero","encoding":"base64"})");
  EXPECT_EQ(base::decode_base64(text_of(big, "stdout")), std::string(200'000, '\0'));
}

// EX-09
TEST(Run, death_by_signal_is_never_success) {
  const TestAgent agent;
  struct Row {
    const char* command;
    int code;
    const char* signal;
  };
  for (const Row& row :
       {Row{"kill -9 $$", 137, "KILL"}, Row{"kill -SEGV $$", 139, "SEGV"},
        Row{"kill -TERM $$", 143, "TERM"}, Row{"exit 300", 44, ""}, Row{"exit 255", 255, ""}}) {
    const Object answer = agent.shell(row.command);
    EXPECT_EQ(exit_code(answer), row.code) << row.command;
    EXPECT_EQ(text_of(answer, "signal"), row.signal) << row.command;
  }
}

TEST(Run, not_found_is_127_and_not_executable_126) {
  const TestAgent agent;
  EXPECT_EQ(exit_code(agent.run(R"({"argv":["no-such-program"]})")), 127);
  EXPECT_EQ(exit_code(agent.run(R"({"argv":["/no/such/program"]})")), 127);
  EXPECT_EQ(exit_code(agent.run(R"({"argv":[""]})")), 127);
  EXPECT_EQ(exit_code(agent.run(R"({"argv":["/etc/passwd"]})")), 126);
  EXPECT_EQ(exit_code(agent.run(R"({"argv":["/etc"]})")), 126);
  const Object answer = agent.run(R"({"argv":["no-such-program"]})");
  EXPECT_NE(text_of(answer, "stderr").find("no-such-program"), std::string::npos);
}

// EX-11
TEST(Run, no_input_is_the_end_of_input_at_once) {
  const TestAgent agent;
  EXPECT_EQ(text_of(agent.shell("cat; echo rc=$?"), "stdout"), "rc=0\n");
  EXPECT_EQ(text_of(agent.shell("read x; echo rc=$?"), "stdout"), "rc=1\n");
  EXPECT_EQ(text_of(agent.shell("wc -c"), "stdout"), "0\n");
  EXPECT_EQ(text_of(agent.shell("[ -t 0 ] && echo tty || echo notty"), "stdout"), "notty\n");
}

TEST(Run, input_arrives_whole_and_a_command_that_does_not_read_it_ends_all_the_same) {
  const TestAgent agent;
  EXPECT_EQ(text_of(agent.run(R"({"argv":["cat"],"stdin":"a"})"), "stdout"), "a");
  EXPECT_EQ(text_of(agent.run(R"({"argv":["cat"],"stdin":"AP8=","stdin_encoding":"base64",)"
                              R"("encoding":"base64"})"),
                    "stdout"),
            "AP8=");
  const std::string big(3'000'000, 'z');
  const std::string input = base::cat(",\"stdin\":\"", big, "\"}");
  EXPECT_EQ(text_of(agent.run(base::cat(R"({"command":"wc -c")", input)), "stdout"), "3000000\n");
  EXPECT_EQ(exit_code(agent.run(base::cat(R"({"command":"head -c 10 >/dev/null; exit 4")", input))),
            4);
  EXPECT_EQ(exit_code(agent.run(base::cat(R"({"command":"exit 5")", input))), 5);
}

// EX-13
TEST(Run, values_of_the_environment_pass_as_they_are) {
  const TestAgent agent(Config{.environment = {{"IMAGE", "i"}, {"BOTH", "image"}}, .user = ""});
  const std::string wild = "$HOME \"q\" 'x' \\ `id`";
  const Object answer = agent.run(base::cat(
      R"({"argv":["env","-0"],"env":{"A":"x\ny","B":" sp ","C":)", json_text(wild),
      R"(,"D":"äß猫🙂","E":"","F":"a=b=c","BOTH":"run","G":")", std::string(100'000, 'g'), "\"}}"));
  const std::string out = std::string(1, '\0') + text_of(answer, "stdout");
  const auto has = [&out](const std::string& entry) {
    return out.find('\0' + entry + '\0') != std::string::npos;
  };
  for (const std::string& entry :
       {std::string("A=x\ny"), std::string("B= sp "), "C=" + wild, std::string("D=äß猫🙂"),
        std::string("E="), std::string("F=a=b=c"), std::string("BOTH=run"), std::string("IMAGE=i"),
        "G=" + std::string(100'000, 'g')}) {
    EXPECT_TRUE(has(entry)) << entry.substr(0, 50);
  }
  EXPECT_EQ(text_of(agent.shell("echo \"[$A]\""), "stdout"), "[]\n");
}

TEST(Run, bad_names_of_the_environment_are_refused_by_name) {
  const TestAgent agent;
  for (const char* body :
       {R"({"argv":["true"],"env":{"":"x"}})", R"({"argv":["true"],"env":{"A=B":"x"}})",
        R"({"argv":["true"],"env":{"A\u0000":"x"}})",
        R"({"argv":["true"],"env":{"A":"x\u0000"}})"}) {
    const Answer answer = post_run(agent, body);
    EXPECT_EQ(answer.status, 422) << body;
    EXPECT_EQ(answer.error_code(), "invalid_field");
  }
}

// EX-14, and row 21 of the checklist: a magic link is no folder of the sandbox.
TEST(Run, a_bad_working_folder_has_its_own_error) {
  const TestAgent agent;
  ::mkdir((agent.folder() + "/closed").c_str(), 0700);
  for (const std::string& cwd : {std::string("/nope"), std::string("/etc/passwd"),
                                 std::string("relative/none"), agent.folder() + "/closed",
                                 std::string("/proc/self/fd/0"), std::string("/proc/self/cwd")}) {
    const Answer answer =
        post_run(agent, base::cat(R"({"argv":["true"],"user":"4711","cwd":)", json_text(cwd), "}"));
    EXPECT_EQ(answer.status, 422) << cwd;
    EXPECT_EQ(answer.error_code(), "cwd_invalid") << cwd;
    EXPECT_NE(answer.body.find(cwd), std::string::npos);
  }
  EXPECT_EQ(text_of(agent.run(R"({"argv":["pwd"],"cwd":""})"), "stdout"), agent.folder() + "\n");
  EXPECT_EQ(text_of(agent.run(R"({"argv":["pwd"],"cwd":"closed"})"), "stdout"),
            agent.folder() + "/closed\n");
}

// EX-16
TEST(Run, an_argument_above_the_kernels_limit_is_named_and_a_script_is_not_limited) {
  const TestAgent agent;
  const auto echo = [&agent](size_t size) {
    return post_run(agent, base::cat(R"({"argv":["echo",")", std::string(size, 'x'), "\"]}"));
  };
  EXPECT_EQ(echo(131'071).status, 200);
  const Answer long_one = echo(131'072);
  EXPECT_EQ(long_one.status, 422);
  EXPECT_NE(long_one.body.find("argument list too long"), std::string::npos);
  std::string many = R"({"argv":["true")";
  for (int i = 0; i < 3000; ++i) {
    many += base::cat(",\"", std::string(1000, 'y'), '"');
  }
  const Answer many_ones = post_run(agent, many + "]}");
  EXPECT_EQ(many_ones.status, 422);
  EXPECT_NE(many_ones.body.find("argument list too long"), std::string::npos);
  const std::string lines(size_t{1024} * 1024, 'k');
  const Object script = agent.run(base::cat(
      R"({"stdin":"input","command":)",
      json_text(base::cat("cat > f <<'EOF'\n", lines,
                          "\nEOF\nwc -c < f; cat; echo; echo $0 $#; ls /proc/self/fd | wc -l")),
      "}"));
  // ls itself has one more open.
  EXPECT_EQ(text_of(script, "stdout"), "1048577\ninput\nsh 0\n4\n") << text_of(script, "stderr");
}

// EX-18
TEST(Run, orphans_are_reaped) {
  const TestAgent agent;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(exit_code(agent.shell("for i in $(seq 1 100); do (sleep 0.01 &); done; exit 0")), 0);
  }
  const std::string count =
      base::cat("cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ", ::getpid(), " '");
  EXPECT_TRUE(eventually([&] { return text_of(agent.shell(count), "stdout") == "0\n"; }));
}

TEST(Run, a_command_has_the_users_ids_home_and_no_rights_of_the_agent) {
  const TestAgent agent;
  const Object ids =
      agent.run(R"({"user":"4711:4712","command":"id -u; id -g; id -G; echo $HOME; umask"})");
  EXPECT_EQ(text_of(ids, "stdout"), "4711\n4712\n4712\n/\n0022\n");
  const Object rights =
      agent.run(R"({"user":"4711","command":"grep -E 'Cap(Inh|Prm|Eff|Amb)|Sig(Blk|Ign)' )"
                R"(/proc/self/status"})");
  for (const std::string_view line : base::split(base::trim(text_of(rights, "stdout")), '\n')) {
    EXPECT_TRUE(line.empty() || line.ends_with("\t0000000000000000")) << line;
  }
  EXPECT_EQ(text_of(agent.shell("ls /proc/self/fd"), "stdout"), "0\n1\n2\n3\n");
  EXPECT_EQ(text_of(agent.shell("cat /proc/self/oom_score_adj"), "stdout"), "500\n");
  const Object session = agent.shell("set -- $(cat /proc/$$/stat); [ $6 = $$ ] && echo own");
  EXPECT_EQ(text_of(session, "stdout"), "own\n");
}

TEST(Run, what_is_not_documented_is_refused) {
  const TestAgent agent;
  struct Row {
    const char* body;
    int status;
    const char* code;
  };
  for (const Row& row :
       {Row{"{", 400, "malformed"}, Row{"[]", 400, "malformed"}, Row{"{}", 422, "missing_field"},
        Row{R"({"argv":[]})", 422, "invalid_field"},
        Row{R"({"argv":["a\u0000b"]})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"command":"b"})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"x":1})", 422, "unknown_field"},
        Row{R"({"argv":"a"})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"timeout_sec":0})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"encoding":"latin1"})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"stdin":"?","stdin_encoding":"base64"})", 422, "invalid_field"},
        Row{R"({"argv":["a"],"user":"no-such-user"})", 422, "user_unknown"}}) {
    const Answer answer = post_run(agent, row.body);
    EXPECT_EQ(answer.status, row.status) << row.body;
    EXPECT_EQ(answer.error_code(), row.code) << row.body;
  }
}

TEST(Run, a_connection_serves_one_command_after_another_and_names_the_request) {
  const TestAgent agent;
  TestClient client(agent.socket_path());
  for (int i = 0; i < 3; ++i) {
    client.send(
        {.method = "POST", .target = "/run", .body = R"({"argv":["true"]})", .headers = ""});
    EXPECT_EQ(client.receive().status, 200);
    client.send(
        {.method = "POST", .target = "/run", .body = "{}", .headers = "x-request-id: r7\r\n"});
    EXPECT_NE(client.receive().body.find("\"request_id\":\"r7\""), std::string::npos);
  }
}

TEST(Server, knows_its_routes) {
  const TestAgent agent;
  EXPECT_EQ(agent.ask({.target = "/healthz"}).status, 200);
  EXPECT_EQ(agent.ask({.target = "/nothing"}).error_code(), "not_found");
  EXPECT_EQ(agent.ask({.target = "/run"}).error_code(), "method_not_allowed");
  EXPECT_EQ(agent.ask({.method = "POST", .target = "/files/mkdir"}).error_code(), "missing_field");
}

}  // namespace
}  // namespace agent
