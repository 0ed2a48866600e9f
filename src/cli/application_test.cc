// The whole program against a real HTTP server with scripted answers.
#include <signal.h>
#include <sys/stat.h>

#include "cli/application_testing.h"
#include "wire/audit_chain.h"
#include "wire/json.h"
#include "wire/tar_testing.h"

namespace cli {
namespace {

using Application = ApplicationFixture;

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

TEST_F(Application, a_name_that_would_make_another_address_is_asked_of_nobody) {
  ScriptedServer server({});
  for (const std::string name : {"", ".", ".."}) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"get", name},
                                                  {"rm", name},
                                                  {"exec", name, "--", "true"},
                                                  {"shell", name},
                                                  {"shell", "--container", "db", name},
                                                  {"events", "-f", name},
                                                  {"sessions", "rm", "sbx-1", name},
                                                  {"image", "rm", name},
                                                  {"token", "revoke", name},
                                                  {"team", "delete", name},
                                                  {"team", "members", "t", "--remove", name}}) {
      EXPECT_EQ(run(server, words), 125);
      EXPECT_TRUE(error_.contains(base::cat("'", name, "' is no name of anything"))) << error_;
    }
  }
  EXPECT_TRUE(server.seen().empty());
}

TEST_F(Application, what_json_cannot_hold_is_told_before_it_is_sent) {
  ScriptedServer server({});
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"exec", "sbx-1", "--", "echo", "\xff"},
        {"exec", "sbx-1", "-e", "A=\xff", "--", "env"},
        {"exec", "sbx-1", "-w", "/\xff", "--", "pwd"},
        {"sessions", "start", "sbx-1", "--", "echo", "\xff"},
        {"create", "debian", "-l", "a=\xff"},
        {"run", "debian", "-e", "A=\xff", "--", "env"}}) {
    EXPECT_EQ(run(server, words), 125);
    EXPECT_TRUE(error_.contains("invalid_field") && error_.contains("UTF-8")) << error_;
  }
  EXPECT_TRUE(server.seen().empty());
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

TEST_F(Application, cp_of_a_folder_wants_to_be_asked_for) {
  ScriptedServer server({});
  EXPECT_EQ(run(server, {"cp", folder_, "sbx-1:/a"}), 125);
  EXPECT_TRUE(error_.contains("is_a_directory") && error_.contains("cp -r")) << error_;
  EXPECT_TRUE(server.seen().empty());
}

TEST_F(Application, cp_r_sends_a_folder_as_a_tar) {
  ASSERT_TRUE(base::sys::make_folders(folder_ + "/tree/sub", 0755));
  ASSERT_TRUE(base::sys::replace_file(folder_ + "/tree/sub/file", "content", 0644));
  ScriptedServer server({{.body = R"({"files":1,"bytes":7})"}});
  EXPECT_EQ(run(server, {"cp", "-r", folder_ + "/tree", "sbx-1:/opt/", "-u", "root"}), 0) << error_;
  const auto seen = server.seen();
  EXPECT_EQ(seen[0].line, "PUT /sandboxes/sbx-1/files?path=%2Fopt%2Ftree&user=root&tar=1 HTTP/1.1");
  EXPECT_TRUE(seen[0].body.contains("./sub/file"));
  EXPECT_TRUE(seen[0].body.contains("content"));
}

TEST_F(Application, cp_r_compresses_where_it_is_told) {
  ASSERT_TRUE(base::sys::make_folders(folder_ + "/tree", 0755));
  ASSERT_TRUE(base::sys::replace_file(folder_ + "/tree/file", std::string(100'000, 'x'), 0644));
  const std::string tar = wire::TarBuilder().folder("./").file("./f", "content").finish();
  ScriptedServer server(
      {{.body = R"({"files":1,"bytes":7})"}, {.body = "{}"}, {.body = tar}, {.body = tar}});
  EXPECT_EQ(run(server, {"cp", "-r", "--compress", folder_ + "/tree", "sbx-1:/a"}), 0) << error_;
  EXPECT_EQ(run(server, {"cp", "-r", folder_ + "/tree", "sbx-1:/a"}), 0) << error_;
  EXPECT_EQ(run(server, {"cp", "-r", "--compress", "sbx-1:/a", folder_ + "/to"}), 0) << error_;
  EXPECT_EQ(run(server, {"cp", "-r", "sbx-1:/a", folder_ + "/to"}), 0) << error_;
  const auto seen = server.seen();
  EXPECT_TRUE(seen[0].head.contains("Content-Encoding: zstd"));
  EXPECT_TRUE(seen[0].body.starts_with("\x28\xb5\x2f\xfd"));  // zstd's magic number
  EXPECT_LT(seen[0].body.size(), 10'000U);
  EXPECT_FALSE(seen[1].head.contains("Content-Encoding"));
  EXPECT_TRUE(seen[2].head.contains("Accept-Encoding") && seen[2].head.contains("zstd"));
  EXPECT_FALSE(seen[3].head.contains("Accept-Encoding"));
}

TEST_F(Application, cp_r_lays_a_tar_out) {
  const std::string tar =
      wire::TarBuilder().folder("./").folder("./d").file("./d/f", "content").finish();
  ScriptedServer server({{.body = tar}, {.body = tar}, {.body = tar}});
  const std::string target = folder_ + "/new";
  EXPECT_EQ(run(server, {"cp", "-r", "sbx-1:/src", target}), 0) << error_;
  EXPECT_EQ(server.seen()[0].line, "GET /sandboxes/sbx-1/files?path=%2Fsrc&tar=1 HTTP/1.1");
  EXPECT_EQ(base::sys::read_file(target + "/d/f", kOutputBytesMax), "content");
  // Into a folder that is there goes the source's name, or what is in it for "/.".
  EXPECT_EQ(run(server, {"cp", "-r", "sbx-1:/src", target}), 0) << error_;
  EXPECT_EQ(base::sys::read_file(target + "/src/d/f", kOutputBytesMax), "content");
  EXPECT_EQ(run(server, {"cp", "-r", "sbx-1:/src/.", target + "/src"}), 0) << error_;
  EXPECT_EQ(base::sys::list_folder(target + "/src")->size(), 1U);
}

TEST_F(Application, cp_r_says_what_broke_off) {
  const std::string tar =
      wire::TarBuilder().file("./f", "content").file("./g", std::string(100'000, 'x')).finish();
  ScriptedServer broken({{.body = tar, .hang_up = true}});
  EXPECT_EQ(run(broken, {"cp", "-r", "sbx-1:/src", folder_ + "/broken"}), 125);
  EXPECT_TRUE(error_.contains("connection_closed")) << error_;
  ScriptedServer refused(
      {{.status = 404, .body = R"({"error":{"code":"file_not_found","message":"m"}})"}});
  EXPECT_EQ(run(refused, {"cp", "-r", "sbx-1:/src", folder_ + "/refused"}), 125);
  EXPECT_TRUE(error_.contains("file_not_found")) << error_;
  EXPECT_NE(::access((folder_ + "/refused").c_str(), F_OK), 0);
  ScriptedServer hostile({{.body = wire::TarBuilder().file("../escaped", "x").finish()}});
  EXPECT_EQ(run(hostile, {"cp", "-r", "sbx-1:/src", folder_ + "/hostile"}), 125);
  EXPECT_TRUE(error_.contains("archive_invalid")) << error_;
  EXPECT_NE(::access((folder_ + "/escaped").c_str(), F_OK), 0);
}

TEST_F(Application, cp_r_of_a_file_copies_the_file) {
  ScriptedServer server(
      {{.status = 409, .body = R"({"error":{"code":"not_a_directory","message":"m"}})"},
       {.body = "content"}});
  EXPECT_EQ(run(server, {"cp", "-r", "sbx-1:/f", folder_ + "/f"}), 0) << error_;
  EXPECT_EQ(base::sys::read_file(folder_ + "/f", kOutputBytesMax), "content");
}

TEST_F(Application, cp_r_passes_archives_through_pipes) {
  ScriptedServer server({{.body = "{}"}, {.body = "tar bytes"}});
  use_input("piped tar");
  EXPECT_EQ(run(server, {"cp", "-r", "-", "sbx-1:/a/"}), 0) << error_;
  EXPECT_EQ(server.seen()[0].line, "PUT /sandboxes/sbx-1/files?path=%2Fa%2F&tar=1 HTTP/1.1");
  EXPECT_EQ(server.seen()[0].body, "piped tar");
  EXPECT_EQ(run(server, {"cp", "-r", "sbx-1:/a", "-"}), 0) << error_;
  EXPECT_EQ(out_, "tar bytes");
}

TEST_F(Application, files_commands_are_one_request_each) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"files", "mkdir", "sbx-1", "/a b", "--mode", "0700"},
       "POST /sandboxes/sbx-1/files/mkdir?path=%2Fa%20b&mode=0700 HTTP/1.1"},
      {{"files", "mv", "sbx-1", "/a", "/b"},
       "POST /sandboxes/sbx-1/files/move?path=%2Fa&to=%2Fb&overwrite=1 HTTP/1.1"},
      {{"files", "mv", "-n", "sbx-1", "/a", "/b"},
       "POST /sandboxes/sbx-1/files/move?path=%2Fa&to=%2Fb&overwrite=0 HTTP/1.1"},
      {{"files", "chmod", "-r", "sbx-1", "0644", "/a"},
       "POST /sandboxes/sbx-1/files/chmod?path=%2Fa&mode=0644&recursive=1 HTTP/1.1"},
      {{"files", "rm", "sbx-1", "/a", "-r", "-u", "root"},
       "DELETE /sandboxes/sbx-1/files?path=%2Fa&user=root&recursive=1 HTTP/1.1"}};
  for (const auto& [words, line] : cases) {
    ScriptedServer server({{.body = "{}"}});
    EXPECT_EQ(run(server, words), 0) << error_;
    EXPECT_EQ(out_, "");
    EXPECT_EQ(server.seen()[0].line, line);
  }
}

TEST_F(Application, files_ls_and_stat_show_what_is_there_made_inert) {
  const std::string item = R"({"name":"l","path":"/a/l\u001b","type":"symlink","size":3,)"
                           R"("mode":"0777","uid":0,"gid":1,"mtime":"t","link_target":"x"})";
  ScriptedServer server({{.body = base::cat(R"({"items":[)", item, "]}")},
                         {.body = base::cat(R"({"items":[)", item, "]}")},
                         {.body = item}});
  EXPECT_EQ(run(server, {"files", "ls", "sbx-1", "/a", "--depth", "2"}), 0) << error_;
  EXPECT_TRUE(out_.contains(R"(/a/l\x1b -> x)")) << out_;
  EXPECT_EQ(server.seen()[0].line, "GET /sandboxes/sbx-1/files?path=%2Fa&list=1&depth=2 HTTP/1.1");
  EXPECT_EQ(run(server, {"files", "ls", "sbx-1", "/a", "-q"}), 0) << error_;
  EXPECT_EQ(out_, "/a/l\\x1b\n");
  EXPECT_EQ(run(server, {"files", "stat", "sbx-1", "/a/l", "-o", "json"}), 0) << error_;
  EXPECT_EQ(wire::json::parse(out_).value(), wire::json::parse(item).value());
}

TEST_F(Application, logs_go_on_after_a_lost_connection_where_they_were) {
  ScriptedServer server({{.body = std::string(10, 'a'), .hang_up = true},
                         {.body = "bbb", .headers = "X-Log-Start-Offset: 9\r\n"}});
  EXPECT_EQ(run(server, {"logs", "sbx-1", "-f"}), 0) << error_;
  EXPECT_EQ(out_, "aaaaabbb");
  EXPECT_TRUE(error_.contains("4 bytes of the output are no longer kept")) << error_;
  EXPECT_EQ(server.seen()[0].line, "GET /sandboxes/sbx-1/logs?offset=0&follow=true HTTP/1.1");
  EXPECT_EQ(server.seen()[1].line, "GET /sandboxes/sbx-1/logs?offset=5&follow=true HTTP/1.1");
}

TEST_F(Application, a_network_is_shown_and_changed) {
  const std::string sandbox = R"({"network":{"mode":"allow","allow":["a.b","10.0.0.0/8"]}})";
  ScriptedServer server({{.body = sandbox}, {.body = sandbox}, {.body = sandbox}});
  EXPECT_EQ(run(server, {"network", "sbx-1"}), 0) << error_;
  EXPECT_EQ(out_, "allow: a.b, 10.0.0.0/8\n");
  EXPECT_EQ(run(server, {"network", "sbx-1", "--allow", "a.b", "--allow", "*.c"}), 0) << error_;
  EXPECT_EQ(run(server, {"network", "sbx-1", "none"}), 0) << error_;
  EXPECT_EQ(server.seen()[0].line, "GET /sandboxes/sbx-1 HTTP/1.1");
  EXPECT_EQ(server.seen()[1].line, "PATCH /sandboxes/sbx-1 HTTP/1.1");
  EXPECT_EQ(server.seen()[1].body, R"({"network":{"mode":"allow","allow":["a.b","*.c"]}})");
  EXPECT_EQ(server.seen()[2].body, R"({"network":{"mode":"none"}})");
}

TEST_F(Application, a_sandbox_tells_how_it_is_doing) {
  ScriptedServer server(
      {{.body = R"({"running_commands":2,"sessions":1,"lease_expires_at":"then"})"},
       {.body = R"({"now":{"cpu":{"usage_ms":12},"pids":3},"series":[]})"},
       {.body = R"({"items":[{"at":"t","event":"command.run","caller":"ci\u001b","remote":null,)"
                R"("details":{"argv":["ls"]}}],"next_cursor":null})"}});
  EXPECT_EQ(run(server, {"activity", "sbx-1"}), 0) << error_;
  EXPECT_TRUE(out_.contains("Commands:") && out_.contains("then")) << out_;
  EXPECT_EQ(run(server, {"metrics", "sbx-1"}), 0) << error_;
  EXPECT_TRUE(out_.contains("cpu.usage_ms:  12")) << out_;
  EXPECT_EQ(run(server, {"audit", "sbx-1", "--event", "command.run", "--limit", "5"}), 0) << error_;
  EXPECT_TRUE(out_.contains(R"(ci\x1b)") && out_.contains(R"({"argv":["ls"]})")) << out_;
  EXPECT_EQ(server.seen()[2].line,
            "GET /audit-logs?event=command.run&sandbox=sbx-1&limit=5 HTTP/1.1");
}

TEST_F(Application, the_teams_activity_and_audit_log_are_asked_for_with_their_filters) {
  ScriptedServer server(
      {{.body = R"({"step_sec":3600,"items":[{"team":"t","subject":"ann","total":)"
                R"({"actions":7,"commands":3,"bytes_in":2048},"series":[]}]})"},
       {.body = R"({"items":[],"next_cursor":"1.2"})"},
       {.body = R"({"items":[{"event":"file.read","error":"not_found"}],"next_cursor":null})"},
       {.body = R"({"id":7,"hash":"ab"})"}});
  EXPECT_EQ(run(server, {"activity", "--step", "15m", "--team", "t"}), 0) << error_;
  EXPECT_TRUE(out_.contains("ann") && out_.contains("2.0 KiB")) << out_;
  EXPECT_EQ(run(server, {"audit", "--result", "error", "--all-teams"}), 0) << error_;
  EXPECT_TRUE(out_.contains("not_found")) << out_;
  EXPECT_EQ(run(server, {"audit", "head"}), 0) << error_;
  EXPECT_EQ(out_, "7:ab\n");
  EXPECT_EQ(server.seen()[0].line, "GET /activity?step=900&team=t HTTP/1.1");
  EXPECT_EQ(server.seen()[2].line,
            "GET /audit-logs?result=error&scope=all&limit=100&cursor=1.2 HTTP/1.1");
}

TEST_F(Application, a_log_is_verified_and_its_first_broken_row_told) {
  std::string lines;
  std::string prev(wire::kAuditGenesis);
  for (int64_t id = 1; id <= 3; ++id) {
    model::AuditRow row{.id = id, .event = "x", .details_json = "{}"};
    row.hash = wire::audit_hash(row, prev);
    lines += wire::audit_line(row, prev) + "\n";
    prev = row.hash;
  }
  std::string changed = lines;
  changed[changed.find("\"id\":2") - 1] = ' ';
  std::string other = lines;
  other.replace(other.find("\"x\""), 3, "\"y\"");
  ScriptedServer server({{.body = lines},
                         {.body = other},
                         {.body = lines},
                         {.body = changed},
                         {.body = lines.substr(0, lines.size() - 1)}});
  EXPECT_EQ(run(server, {"audit", "verify"}), 0) << error_;
  EXPECT_TRUE(out_.contains("3:" + prev)) << out_;
  EXPECT_EQ(run(server, {"audit", "verify"}), 1);
  EXPECT_TRUE(error_.contains("row 1")) << error_;
  EXPECT_EQ(run(server, {"audit", "verify", "--noted", "4:" + prev}), 1);
  EXPECT_TRUE(error_.contains("row 4")) << error_;
  EXPECT_EQ(run(server, {"audit", "verify"}), 125);  // no log
  EXPECT_EQ(run(server, {"audit", "verify"}), 125);  // cut off in a line
  EXPECT_EQ(server.seen()[0].line, "GET /audit-logs?scope=all&format=jsonl HTTP/1.1");
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

TEST_F(Application, apply_shows_what_would_change_and_changes_nothing_unasked) {
  const std::string plan =
      R"({"changes":[{"team":"red","action":"update","fields":)"
      R"([{"field":"quota.cpus","from":null,"to":4}]},{"team":"blue","action":"none",)"
      R"("fields":[]}],"changes_something":true,"applied":false})";
  ScriptedServer server({{.body = plan}, {.body = plan}, {.body = plan}, {.body = plan}});
  use_input("teams: [{name: red, quota: {cpus: 4}}]\n");
  EXPECT_EQ(run(server, {"apply", "-", "--dry-run"}), 0) << error_;
  EXPECT_EQ(out_, "~ team red\n    quota.cpus: null -> 4\n");
  EXPECT_EQ(server.seen()[0].line, "PUT /teams?dry_run=1 HTTP/1.1");
  EXPECT_EQ(server.seen()[0].body, R"({"teams":[{"name":"red","quota":{"cpus":4}}]})");
  use_input("teams: []\n");
  EXPECT_EQ(run(server, {"apply", "-"}), 125);
  EXPECT_TRUE(error_.contains("--yes")) << error_;
  use_input("teams: []\n");
  EXPECT_EQ(run(server, {"apply", "-", "--yes", "--prune"}), 0) << error_;
  EXPECT_EQ(server.seen()[3].line, "PUT /teams HTTP/1.1");
  EXPECT_EQ(server.seen()[3].body, R"({"teams":[],"prune":true})");
}

TEST_F(Application, bad_definitions_are_refused_here_with_their_line) {
  ScriptedServer server({});
  use_input("teams:\n- name: red\n  name: blue\n");
  EXPECT_EQ(run(server, {"apply", "-"}), 125);
  EXPECT_TRUE(error_.contains("line 3")) << error_;
  EXPECT_EQ(run(server, {"team", "create", "red", "--set", "quota"}), 125);
  EXPECT_TRUE(server.seen().empty());
}

TEST_F(Application, fields_of_a_team_are_set_one_by_one) {
  ScriptedServer server({{.body = R"({"name":"red"})"}});
  EXPECT_EQ(run(server, {"team", "update", "red", "--set", "quota.cpus=8", "-s",
                         "quota.memory_mb=null", "-s", "isolation=[container]"}),
            0)
      << error_;
  EXPECT_EQ(server.seen()[0].line, "PATCH /teams/red HTTP/1.1");
  EXPECT_EQ(server.seen()[0].body,
            R"({"quota":{"cpus":8,"memory_mb":null},"isolation":["container"]})");
}

TEST_F(Application, a_new_token_is_the_only_thing_on_standard_output) {
  ScriptedServer server({{.status = 201, .body = R"({"id":"tok-1","team":"red","secret":"abc"})"}});
  EXPECT_EQ(run(server, {"token", "create", "ci", "--scope", "read", "--scope", "member", "--team",
                         "red", "--expires", "1h"}),
            0)
      << error_;
  EXPECT_EQ(out_, "abc\n");
  EXPECT_EQ(server.seen()[0].body,
            R"({"name":"ci","scopes":["read","member"],"team":"red","expires_in_sec":3600})");
  EXPECT_EQ(run(server, {"token", "create", "ci"}), 125);
  EXPECT_EQ(run(server, {"token", "create", "ci", "--scope", "root"}), 125);
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

TEST_F(Application, login_by_the_issuer_shows_where_to_type_what_and_keeps_the_token) {
  ScriptedServer server({{.body = R"({"attempt":"a","user_code":"WDJB-MJHT","interval_sec":1,
                           "verification_uri":"https://issuer/device",
                           "verification_uri_complete":null,"expires_in_sec":60})"},
                         {.body = R"({"token":"person.abc","subject":"amy"})"},
                         {.body = R"({"items":[]})"}});
  const Environment nothing{.home = folder_};
  ASSERT_EQ(run(nothing, {"login", server.url(), "--oidc"}), 0) << error_;
  EXPECT_TRUE(error_.contains("https://issuer/device") && error_.contains("WDJB-MJHT")) << error_;
  EXPECT_FALSE(out_.contains("person.abc") || error_.contains("person.abc"));
  EXPECT_EQ(server.seen()[1].body, R"({"attempt":"a"})");
  EXPECT_FALSE(server.seen()[0].head.contains("Bearer"));
  EXPECT_TRUE(server.seen()[2].head.contains("Bearer person.abc"));
}

TEST_F(Application, a_sign_in_that_the_issuer_refuses_changes_nothing) {
  ScriptedServer server({{.body = R"({"attempt":"a","user_code":"X","interval_sec":1,
                           "verification_uri":"https://issuer/device"})"},
                         {.status = 401}});
  EXPECT_EQ(run(Environment{.home = folder_}, {"login", server.url(), "--oidc"}), 125);
  EXPECT_NE(::access((folder_ + "/.config").c_str(), F_OK), 0);
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

TEST_F(Application, version_works_without_a_gateway) {
  const Environment environment{.home = folder_, .url = "http://127.0.0.1:1"};
  EXPECT_EQ(run(environment, {"version"}), 0);
  EXPECT_TRUE(out_.starts_with("cli ")) << out_;
  EXPECT_TRUE(error_.contains("no gateway at"));
}

}  // namespace
}  // namespace cli
