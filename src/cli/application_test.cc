// The whole program against a real HTTP server with scripted answers.
#include "cli/application.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "cli/scripted_server_testing.h"
#include "wire/json.h"

namespace cli {
namespace {

constexpr size_t kOutputBytesMax = 1UL << 20U;
constexpr std::string_view kReady = R"({"id":"sbx-1","state":"ready","image":"debian"})";
constexpr std::string_view kFailed =
    R"({"id":"sbx-1","state":"failed","reason":"image_not_found","message":"no\u001b[2J image"})";

// No pauses and no standard input: /dev/null.
class Application : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sandbox-cli-test-XXXXXX";
    folder_ = ::mkdtemp(name);
    input_before_ = base::Fd(::dup(STDIN_FILENO));
    use_input("");
  }
  void TearDown() override {
    ::dup2(input_before_.get(), STDIN_FILENO);
    (void)base::sys::remove_tree(folder_);
  }

  void use_input(const std::string& bytes) {
    const auto memory = base::sys::make_sealed_memory("input", bytes);
    ASSERT_TRUE(memory);
    ::dup2(memory->get(), STDIN_FILENO);
    ::lseek(STDIN_FILENO, 0, SEEK_SET);
  }

  int run(ScriptedServer& server, const std::vector<std::string>& words) {
    Environment environment{.home = folder_, .url = server.url(), .token = "token-1"};
    return run(environment, words);
  }

  int run(const Environment& environment, const std::vector<std::string>& words) {
    const std::string out_path = folder_ + "/out";
    const std::string error_path = folder_ + "/error";
    {
      const auto out = base::sys::open(out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const auto error = base::sys::open(error_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
      Interrupt interrupt;
      Console console(out->get(), error->get(), interrupt);
      const base::FakeClock clock;
      base::KernelRandom random;
      exit_code_ = run_application(words, environment, console, interrupt, clock, random);
    }
    out_ = base::sys::read_file(out_path, kOutputBytesMax).value_or("");
    error_ = base::sys::read_file(error_path, kOutputBytesMax).value_or("");
    return exit_code_;
  }

  std::string folder_;
  base::Fd input_before_;
  int exit_code_ = 0;
  std::string out_;
  std::string error_;
};

std::string run_answer(std::string_view out, std::string_view error, std::string_view rest) {
  return base::cat(R"({"stdout":")", base::base64(out), R"(","stderr":")", base::base64(error),
                   "\",", rest, "}");
}

TEST_F(Application, create_prints_the_id_and_sends_token_and_key) {
  ScriptedServer server(
      {{.status = 201, .body = std::string(kReady)}, {.body = std::string(kReady)}});
  ASSERT_EQ(run(server, {"create", "debian", "--label", "a=b"}), 0) << error_;
  EXPECT_EQ(out_, "sbx-1\n");
  EXPECT_EQ(error_, "");
  const auto seen = server.seen();
  EXPECT_EQ(seen[0].line, "POST /sandboxes HTTP/1.1");
  EXPECT_TRUE(seen[0].head.contains("Authorization: Bearer token-1\r\n"));
  EXPECT_TRUE(seen[0].head.contains("Idempotency-Key: "));
  EXPECT_EQ(seen[0].body, R"({"image":"debian","cpus":1E0,"memory_mb":512,"labels":{"a":"b"}})");
  EXPECT_EQ(seen[1].line, "GET /sandboxes/sbx-1?wait=300 HTTP/1.1");
}

TEST_F(Application, a_failed_sandbox_is_an_error_with_its_reason_made_inert) {
  ScriptedServer server(
      {{.status = 201, .body = std::string(kFailed)}, {.body = std::string(kFailed)}});
  EXPECT_EQ(run(server, {"create", "debian"}), 125);
  EXPECT_EQ(error_,
            "sandbox: error: not_ready: sandbox sbx-1 is failed: image_not_found: no\\x1b[2J "
            "image\n");
}

TEST_F(Application, exec_gives_output_and_exit_code_as_they_are) {
  ScriptedServer server({{.body = run_answer("out\xff", "err", R"("exit_code":7)")}});
  use_input("in\n");
  EXPECT_EQ(run(server, {"exec", "sbx-1", "-e", "A=1", "--", "cmd", "-x"}), 7);
  EXPECT_EQ(out_, "out\xff");
  EXPECT_EQ(error_, "err");
  EXPECT_EQ(server.seen()[0].body,
            R"({"argv":["cmd","-x"],"encoding":"base64","env":{"A":"1"},"stdin":"aW4K",)"
            R"("stdin_encoding":"base64"})");
}

TEST_F(Application, exec_is_never_repeated) {
  ScriptedServer dropped({{.drop = true}, {.body = run_answer("", "", R"("exit_code":0)")}});
  EXPECT_EQ(run(dropped, {"exec", "sbx-1", "--", "x"}), 125);
  EXPECT_EQ(dropped.seen().size(), 1U);
  ScriptedServer busy({{.status = 503, .body = R"({"error":{"code":"draining","message":"m"}})"}});
  EXPECT_EQ(run(busy, {"exec", "sbx-1", "--", "x"}), 125);
  EXPECT_EQ(busy.seen().size(), 1U);
}

TEST_F(Application, exec_has_its_own_exit_codes) {
  ScriptedServer timed({{.body = run_answer("", "", R"("exit_code":null,"timed_out":true)")}});
  EXPECT_EQ(run(timed, {"exec", "sbx-1", "--", "x"}), 124);
  ScriptedServer late({{.body = R"(  {"exit_code":null,"error":{"code":"agent_failed",)"
                                R"("message":"gone","details":{"request_id":"r-1"}}})"}});
  EXPECT_EQ(run(late, {"exec", "sbx-1", "--", "x"}), 125);
  EXPECT_EQ(error_, "sandbox: error: agent_failed: gone (request r-1)\n");
}

TEST_F(Application, exec_refuses_long_input_before_asking) {
  ScriptedServer server({});
  use_input(std::string((8UL << 20U) + 1, 'x'));
  EXPECT_EQ(run(server, {"exec", "sbx-1", "--", "x"}), 125);
  EXPECT_TRUE(error_.contains("sandbox cp")) << error_;
  EXPECT_TRUE(server.seen().empty());
}

TEST_F(Application, run_deletes_after_the_command_and_after_a_failure) {
  ScriptedServer fine({{.status = 201, .body = std::string(kReady)},
                       {.body = std::string(kReady)},
                       {.body = run_answer("hi\n", "", R"("exit_code":3)")},
                       {.status = 204}});
  EXPECT_EQ(run(fine, {"run", "debian", "--", "x"}), 3);
  EXPECT_EQ(out_, "hi\n");
  EXPECT_TRUE(fine.seen().back().line.starts_with("DELETE /sandboxes/sbx-1"));
  ScriptedServer failing({{.status = 201, .body = std::string(kFailed)},
                          {.body = std::string(kFailed)},
                          {.status = 204}});
  EXPECT_EQ(run(failing, {"run", "debian", "--", "x"}), 125);
  EXPECT_TRUE(failing.seen().back().line.starts_with("DELETE /sandboxes/sbx-1"));
}

TEST_F(Application, lists_are_read_page_by_page) {
  ScriptedServer server(
      {{.body = base::cat(R"({"items":[)", kReady, R"(],"next_cursor":"c/1"})")},
       {.body = R"({"items":[{"id":"sbx-2","state":"failed"}],"next_cursor":null})"}});
  EXPECT_EQ(run(server, {"list", "-q", "--label", "a=b c"}), 0) << error_;
  EXPECT_EQ(out_, "sbx-1\nsbx-2\n");
  EXPECT_EQ(server.seen()[0].line, "GET /sandboxes?label=a%3Db%20c&limit=1000 HTTP/1.1");
  EXPECT_TRUE(server.seen()[1].line.contains("&cursor=c%2F1"));
}

TEST_F(Application, get_shows_json_when_asked) {
  ScriptedServer server({{.body = std::string(kReady)}});
  EXPECT_EQ(run(server, {"get", "sbx-1", "-o", "json"}), 0);
  EXPECT_EQ(wire::json::parse(out_).value(), wire::json::parse(kReady).value());
}

TEST_F(Application, reads_are_repeated_after_a_lost_connection) {
  ScriptedServer server({{.drop = true}, {.body = std::string(kReady)}});
  EXPECT_EQ(run(server, {"get", "sbx-1", "-o", "yaml"}), 0) << error_;
  EXPECT_EQ(out_, "id: sbx-1\nstate: ready\nimage: debian\n");
}

TEST_F(Application, errors_of_the_gateway_are_one_line) {
  ScriptedServer server(
      {{.status = 404, .body = R"({"error":{"code":"not_found","message":"no\nsuch sandbox"}})"}});
  EXPECT_EQ(run(server, {"get", "sbx-9"}), 125);
  EXPECT_EQ(error_, "sandbox: error: not_found: no\\x0asuch sandbox\n");
}

TEST_F(Application, rm_deletes_all_it_can_and_tells_of_the_rest) {
  ScriptedServer server({{.status = 202},
                         {.status = 404, .body = R"({"error":{"code":"not_found","message":"m"}})"},
                         {.status = 204}});
  EXPECT_EQ(run(server, {"rm", "sbx-1", "sbx-2"}), 125);
  EXPECT_EQ(out_, "sbx-1\n");
  EXPECT_TRUE(error_.contains("not_found"));
}

TEST_F(Application, cp_uploads_with_length_and_mode) {
  ASSERT_TRUE(base::sys::replace_file(folder_ + "/tool", "bytes", 0755));
  ScriptedServer server({{.body = "{}"}});
  EXPECT_EQ(run(server, {"cp", folder_ + "/tool", "sbx-1:/usr/local/bin/"}), 0) << error_;
  const auto seen = server.seen();
  EXPECT_EQ(seen[0].line,
            "PUT /sandboxes/sbx-1/files?path=%2Fusr%2Flocal%2Fbin%2Ftool&mode=0755 HTTP/1.1");
  EXPECT_EQ(seen[0].body, "bytes");
  EXPECT_TRUE(seen[0].head.contains("Content-Length: 5\r\n"));
}

TEST_F(Application, cp_uploads_standard_input_in_chunks) {
  ScriptedServer server({{.body = "{}"}});
  use_input("piped");
  EXPECT_EQ(run(server, {"cp", "-", "sbx-1:/a"}), 0) << error_;
  EXPECT_EQ(server.seen()[0].body, "piped");
  EXPECT_TRUE(server.seen()[0].head.contains("chunked"));
}

TEST_F(Application, cp_downloads_whole_files_with_their_mode) {
  const std::string target = folder_ + "/got";
  ScriptedServer server({{.body = "content", .headers = "X-File-Mode: 0750\r\n"}});
  const mode_t mask = ::umask(022);
  EXPECT_EQ(run(server, {"cp", "sbx-1:/a", target}), 0) << error_;
  ::umask(mask);
  EXPECT_EQ(base::sys::read_file(target, kOutputBytesMax), "content");
  struct stat status{};
  ASSERT_EQ(::stat(target.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0750U);
}

TEST_F(Application, cp_leaves_the_old_file_when_a_download_breaks) {
  const std::string target = folder_ + "/old";
  ASSERT_TRUE(base::sys::replace_file(target, "old", 0644));
  ScriptedServer server({{.body = std::string(1000, 'x'), .hang_up = true}});
  EXPECT_EQ(run(server, {"cp", "sbx-1:/a", target}), 125);
  EXPECT_EQ(base::sys::read_file(target, kOutputBytesMax), "old");
  EXPECT_EQ(base::sys::list_folder(folder_)->size(), 3U);  // out, error, old
}

TEST_F(Application, cp_says_that_folders_come_later) {
  ScriptedServer server({});
  EXPECT_EQ(run(server, {"cp", folder_, "sbx-1:/a"}), 125);
  EXPECT_TRUE(error_.contains("not_supported")) << error_;
  EXPECT_TRUE(server.seen().empty());
}

TEST_F(Application, followed_events_resume_and_end_at_the_deletion) {
  ScriptedServer server(
      {{.body = "id: 1\ndata: {\"at\":\"t\",\"type\":\"created\"}\n\n"},
       {.body =
            "id: 2\ndata: {\"at\":\"t\",\"type\":\"deleted\",\"reason\":\"lease_expired\"}\n\n"}});
  EXPECT_EQ(run(server, {"events", "sbx-1", "-f"}), 0) << error_;
  EXPECT_EQ(out_, "t  created\nt  deleted         lease_expired\n");
  EXPECT_TRUE(server.seen()[1].head.contains("Last-Event-ID: 1\r\n"));
}

TEST_F(Application, image_pull_follows_to_the_end) {
  ScriptedServer server(
      {{.status = 202, .body = R"({"id":"p1","state":"running"})"},
       {.body = "data: {\"id\":\"p1\",\"state\":\"succeeded\",\"name\":\"n:1\"}\n\n"}});
  EXPECT_EQ(run(server, {"image", "pull", "n"}), 0) << error_;
  EXPECT_EQ(out_, "n:1\n");
  EXPECT_EQ(server.seen()[1].line, "GET /images/pulls/p1?follow=true HTTP/1.1");
}

TEST_F(Application, login_checks_the_token_and_keeps_it_private) {
  ScriptedServer server({{.body = R"({"items":[]})"}, {.body = R"({"items":[]})"}});
  use_input("secret-token\n");
  const Environment nothing{.home = folder_};
  ASSERT_EQ(run(nothing, {"login", server.url()}), 0) << error_;
  struct stat status{};
  const std::string path = folder_ + "/.config/sandbox/config.json";
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_FALSE(out_.contains("secret") || error_.contains("secret"));
  EXPECT_EQ(run(nothing, {"list"}), 0) << error_;
  EXPECT_TRUE(server.seen()[1].head.contains("Bearer secret-token"));
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(run(nothing, {"list"}), 125);
  EXPECT_TRUE(error_.contains("chmod 600")) << error_;
}

TEST_F(Application, a_refused_login_changes_nothing) {
  ScriptedServer server({{.status = 401}});
  use_input("wrong\n");
  EXPECT_EQ(run(Environment{.home = folder_}, {"login", server.url()}), 125);
  EXPECT_NE(::access((folder_ + "/.config").c_str(), F_OK), 0);
}

TEST_F(Application, the_saved_token_goes_to_its_own_gateway_only) {
  ASSERT_TRUE(save_settings(Environment{.home = folder_},
                            {.url = "http://127.0.0.1:1", .token = base::Secret("saved")}));
  ScriptedServer server({});
  EXPECT_EQ(run(Environment{.home = folder_}, {"list", "--url", server.url()}), 125);
  EXPECT_TRUE(error_.contains("no token for")) << error_;
  EXPECT_TRUE(server.seen().empty());
}

// In a process of its own: the signals stay blocked in it.
TEST_F(Application, a_signal_ends_with_130_and_run_still_deletes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto child = [] {
    auto interrupt = Interrupt::open();
    Console console(STDOUT_FILENO, STDERR_FILENO, *interrupt);
    const base::FakeClock clock;
    base::KernelRandom random;
    ScriptedServer server({{.status = 201, .body = std::string(kReady)}, {.status = 204}});
    const Environment environment{.url = server.url(), .token = "t"};
    ::raise(SIGINT);
    const int code = run_application({"run", "debian", "--", "x"}, environment, console, *interrupt,
                                     clock, random);
    const auto seen = server.seen();
    ::_exit(seen.size() == 2 && seen[1].line.starts_with("DELETE") ? code : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(130), "");
}

TEST_F(Application, version_works_without_a_gateway) {
  const Environment environment{.home = folder_, .url = "http://127.0.0.1:1"};
  EXPECT_EQ(run(environment, {"version"}), 0);
  EXPECT_TRUE(out_.starts_with("cli ")) << out_;
  EXPECT_TRUE(error_.contains("no gateway at"));
}

}  // namespace
}  // namespace cli
