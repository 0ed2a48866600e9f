#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_testing.h"
#include "base/sys.h"

namespace agent {
namespace {

std::string read(const std::string& path) {
  auto text = base::sys::read_file(path, 200'000'000);
  return text ? *text : "(" + text.error().message + ")";
}

void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
  ASSERT_TRUE(base::sys::replace_file(path, text, mode));
}

struct stat status_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

size_t entries(const std::string& folder) {
  const auto names = base::sys::list_folder(folder);
  return names ? names->size() : 0;
}

TEST(Files, a_round_trip_tells_size_and_hash) {
  const TestAgent agent;
  const std::string path = agent.folder() + "/deep/er/file";
  const Answer put = agent.put(path, "hello");
  EXPECT_EQ(put.status, 200);
  EXPECT_EQ(text_of(put.json(), "sha256"),
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
  EXPECT_EQ(put.json().at("size").as_int64(), 5);
  const Answer got = agent.get(path);
  EXPECT_EQ(got.body, "hello");
  EXPECT_EQ(got.header("x-file-mode"), "0644");
  EXPECT_EQ(got.header("x-file-owner"), "0:0");
  EXPECT_EQ(agent.get("deep/er/file").body, "hello");
  EXPECT_EQ(agent.put(agent.folder() + "/empty", "").status, 200);
  EXPECT_EQ(agent.get(agent.folder() + "/empty").header("content-length"), "0");
}

TEST(Files, big_chunked_and_expected_bodies_arrive_whole) {
  const TestAgent agent;
  std::string big;
  for (int i = 0; i < 700'000; ++i) {
    big += base::cat(i, ",");
  }
  EXPECT_EQ(agent.put("big", big).status, 200);
  EXPECT_TRUE(agent.get("big").body == big);
  TestClient client(agent.socket_path());
  client.send(
      "PUT /files?path=chunked HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_EQ(agent.get("chunked").body, "abcde");
  client.send(
      "PUT /files?path=expected HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n"
      "expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive("HEAD").status, 100);
  client.send("xy");
  EXPECT_EQ(client.receive().status, 200);
}

TEST(Files, head_ranges_and_conditions) {
  const TestAgent agent;
  write(agent.folder() + "/f", "0123456789");
  const auto get = [&agent](std::string headers, std::string method = "GET") {
    return agent.ask({.method = std::move(method),
                      .target = "/files?path=f",
                      .body = "",
                      .headers = std::move(headers)});
  };
  const Answer head = get("", "HEAD");
  EXPECT_EQ(head.header("content-length"), "10");
  EXPECT_TRUE(head.body.empty());
  const Answer part = get("range: bytes=2-4\r\n");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "234");
  EXPECT_EQ(part.header("content-range"), "bytes 2-4/10");
  EXPECT_EQ(get("range: bytes=-3\r\n").body, "789");
  EXPECT_EQ(get("range: bytes=8-\r\n").body, "89");
  const Answer past = get("range: bytes=10-\r\n");
  EXPECT_EQ(past.status, 416);
  EXPECT_EQ(past.header("content-range"), "bytes */10");
  EXPECT_EQ(get("range: lines=1-2\r\n").body, "0123456789");
  EXPECT_EQ(get("if-none-match: " + head.header("etag") + "\r\n").status, 304);
  EXPECT_EQ(get("if-none-match: \"a\", W/" + head.header("etag") + "\r\n").status, 304);
  EXPECT_EQ(get("if-none-match: *\r\n").status, 304);
  EXPECT_EQ(get("if-none-match: \"a\"\r\n").status, 200);
  EXPECT_EQ(get("if-range: \"other\"\r\nrange: bytes=0-1\r\n").status, 200);
}

TEST(Files, relative_paths_begin_at_the_working_directory) {
  EXPECT_EQ(from_workdir({.workdir = "/"}, "a/b"), "/a/b");
  EXPECT_EQ(from_workdir({.workdir = "/app"}, "a"), "/app/a");
  EXPECT_EQ(from_workdir({.workdir = "/app"}, ""), "/app");
  EXPECT_EQ(from_workdir({.workdir = "/app"}, "/a"), "/a");
}

// FI-01
TEST(Files, links_are_followed_but_no_magic_ones) {
  const TestAgent agent;
  const std::string& folder = agent.folder();
  ::mkdir((folder + "/real").c_str(), 0755);
  write(folder + "/target", "old", 0751);
  ASSERT_EQ(::symlink("real", (folder + "/to_folder").c_str()), 0);
  ASSERT_EQ(::symlink("target", (folder + "/to_file").c_str()), 0);
  ASSERT_EQ(::symlink("real/made", (folder + "/dangling").c_str()), 0);
  ASSERT_EQ(::symlink("loop2", (folder + "/loop1").c_str()), 0);
  ASSERT_EQ(::symlink("loop1", (folder + "/loop2").c_str()), 0);
  EXPECT_EQ(agent.put("to_folder/a", "1").status, 200);
  EXPECT_EQ(read(folder + "/real/a"), "1");
  EXPECT_EQ(agent.put("to_file", "new").status, 200);
  EXPECT_EQ(read(folder + "/target"), "new");
  EXPECT_EQ(status_of(folder + "/target").st_mode & 07777, 0751U);
  EXPECT_TRUE(S_ISLNK(status_of(folder + "/to_file").st_mode));
  EXPECT_EQ(agent.put("dangling", "2").status, 200);
  EXPECT_EQ(read(folder + "/real/made"), "2");
  EXPECT_EQ(agent.put("loop1", "x").error_code(), "path_invalid");
  EXPECT_EQ(agent.get("loop1").error_code(), "path_invalid");
  EXPECT_EQ(agent.get("/proc/self/fd/0").error_code(), "path_invalid");
  EXPECT_EQ(agent.get("/proc/self/root/etc/passwd").error_code(), "path_invalid");
}

// FI-06
TEST(Files, a_file_that_shrinks_breaks_the_download_off_and_one_that_grows_does_not) {
  const TestAgent agent;
  const std::string path = agent.folder() + "/cut";
  write(path, std::string(20'000'000, 'c'));
  TestClient client(agent.socket_path());
  client.send({.target = "/files?path=cut"});
  // The client has not read: the agent waits with most of the file still to be sent.
  ASSERT_EQ(agent.get("cut", "&list=0").status, 200);
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  const Answer cut = client.receive();
  EXPECT_EQ(cut.header("content-length"), "20000000");
  EXPECT_FALSE(cut.whole);

  const std::string log = agent.folder() + "/log";
  write(log, std::string(5'000'000, 'l'));
  TestClient other(agent.socket_path());
  other.send({.target = "/files?path=log"});
  ASSERT_EQ(::truncate(log.c_str(), 9'000'000), 0);
  const Answer grown = other.receive();
  EXPECT_TRUE(grown.whole);
  other.send({.target = "/healthz"});
  EXPECT_EQ(other.receive().status, 200);
}

// FI-08
TEST(Files, a_full_disk_keeps_the_old_file_and_says_so) {
  const TestAgent agent;
  const std::string small = agent.folder() + "/small";
  ::mkdir(small.c_str(), 0755);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "no right to mount";
  }
  const std::string old(1'000'000, 'o');
  EXPECT_EQ(agent.put("small/keep", old).status, 200);
  const std::string big(8'000'000, 'b');
  const Answer full = agent.put("small/keep", big);
  EXPECT_EQ(full.status, 507);
  EXPECT_EQ(full.error_code(), "disk_full");
  TestClient client(agent.socket_path());
  // Without a length it shows only while writing.
  client.send(
      base::cat("PUT /files?path=small/new HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked"
                "\r\n\r\n7a1200\r\n",
                big, "\r\n0\r\n\r\n"));
  EXPECT_EQ(client.receive().error_code(), "disk_full");
  EXPECT_TRUE(read(small + "/keep") == old);
  EXPECT_EQ(entries(small), 1U);
  ::umount(small.c_str());
}

TEST(Files, an_upload_that_is_cut_leaves_the_old_file_and_nothing_else) {
  const TestAgent agent;
  const std::string folder = agent.folder() + "/d";
  ::mkdir(folder.c_str(), 0755);
  write(folder + "/f", "old");
  {
    TestClient client(agent.socket_path());
    client.send("PUT /files?path=d/f HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nhalf");
    EXPECT_TRUE(eventually([&] { return entries(folder) == 2; }));
  }
  EXPECT_TRUE(eventually([&] { return entries(folder) == 1; }));
  EXPECT_EQ(read(folder + "/f"), "old");
}

// FI-09
TEST(Files, owner_and_mode_of_uploads_and_parents) {
  const TestAgent agent;
  const std::string home = agent.folder() + "/home";
  ::mkdir(home.c_str(), 0755);
  ASSERT_EQ(::chown(home.c_str(), 4711, 4712), 0);
  const std::string_view user = "&user=4711:4712";
  EXPECT_EQ(agent.put(home + "/new/a/b.txt", "x", user).status, 200);
  for (const char* name : {"/new", "/new/a", "/new/a/b.txt"}) {
    const auto status = status_of(home + name);
    EXPECT_EQ(status.st_uid, 4711U) << name;
    EXPECT_EQ(status.st_gid, 4712U) << name;
    EXPECT_EQ(status.st_mode & 07777, S_ISDIR(status.st_mode) ? 0755U : 0644U) << name;
  }
  ASSERT_EQ(::chmod((home + "/new/a/b.txt").c_str(), 0755), 0);
  EXPECT_EQ(agent.put(home + "/new/a/b.txt", "y").status, 200);  // as root
  EXPECT_EQ(status_of(home + "/new/a/b.txt").st_uid, 4711U);
  EXPECT_EQ(status_of(home + "/new/a/b.txt").st_mode & 07777, 0755U);
  EXPECT_EQ(agent.put(home + "/m", "z", "&user=4711&mode=600").status, 200);
  EXPECT_EQ(status_of(home + "/m").st_mode & 07777, 0600U);
  EXPECT_EQ(agent.put(home + "/o", "z", "&owner=4711:4712&mode=4755").status, 200);
  EXPECT_EQ(status_of(home + "/o").st_uid, 4711U);
  EXPECT_EQ(status_of(home + "/o").st_mode & 07777, 04755U);
  EXPECT_EQ(agent.put(home + "/x", "z", "&mode=abc").error_code(), "invalid_field");
  EXPECT_EQ(agent.put(home + "/x", "z", "&mode=0999").error_code(), "invalid_field");
  EXPECT_EQ(agent.put(home + "/g", "z", "&user=4711&owner=0").error_code(), "permission_denied");
}

TEST(Files, the_users_rights_decide) {
  const TestAgent agent;
  const std::string& folder = agent.folder();
  write(folder + "/secret", "s", 0600);
  write(folder + "/shared", "s", 0666);
  ::mkdir((folder + "/closed").c_str(), 0700);
  write(folder + "/closed/f", "s", 0666);
  const std::string_view user = "&user=4711";
  EXPECT_EQ(agent.get("secret", user).error_code(), "permission_denied");
  EXPECT_EQ(agent.put("secret", "x", user).error_code(), "permission_denied");
  EXPECT_EQ(agent.put("none", "x", user).error_code(), "permission_denied");
  EXPECT_EQ(agent.put("no/parent", "x", user).error_code(), "permission_denied");
  EXPECT_EQ(agent.get("closed/f", user).error_code(), "permission_denied");
  EXPECT_EQ(agent.get("closed", "&list=1&user=4711").error_code(), "permission_denied");
  // The file where it exists decides, not its folder; owner and mode stay.
  EXPECT_EQ(agent.put("shared", "new", user).status, 200);
  EXPECT_EQ(status_of(folder + "/shared").st_uid, 0U);
  EXPECT_EQ(status_of(folder + "/shared").st_mode & 07777, 0666U);
  EXPECT_EQ(agent.put("shared", "x", "&user=4711&mode=777").error_code(), "permission_denied");
  EXPECT_EQ(agent.get("secret", "&user=no-such").error_code(), "user_unknown");
  EXPECT_EQ(agent.get("secret").status, 200);  // root's rights are back
}

// FI-11
TEST(Files, odd_names_make_the_round_trip) {
  const TestAgent agent;
  for (const std::string& name :
       {std::string("a b"), std::string("a+b"), std::string("a%20b"), std::string("100%"),
        std::string("a#b?c&d=e"), std::string("\"q'"), std::string("näme-猫"),
        std::string("new\nline"), std::string("-rf"), std::string("..hidden"),
        std::string("tab\tx"), std::string("\xff\xfe\x41"), std::string(255, 'n')}) {
    EXPECT_EQ(agent.put("odd/" + name, name).status, 200) << name;
    EXPECT_EQ(agent.get("odd/" + name).body, name) << name;
    EXPECT_EQ(read(agent.folder() + "/odd/" + name), name);
  }
  EXPECT_EQ(agent.put(std::string(256, 'n'), "x").error_code(), "path_invalid");
  const Answer list = agent.get("odd", "&list=1");
  EXPECT_EQ(list.json().at("items").as_array().size(), 13U);
  EXPECT_NE(list.body.find("%FF%FEA"), std::string::npos);
}

// FI-12
TEST(Files, one_clear_answer_each) {
  const TestAgent agent;
  ::mkdir((agent.folder() + "/d").c_str(), 0755);
  write(agent.folder() + "/f", "x");
  ASSERT_EQ(::mkfifo((agent.folder() + "/pipe").c_str(), 0644), 0);
  EXPECT_EQ(agent.get("none").error_code(), "file_not_found");
  EXPECT_EQ(agent.get("none").status, 404);
  EXPECT_EQ(agent.get("f/x").error_code(), "not_a_directory");
  EXPECT_EQ(agent.get("d").error_code(), "is_a_directory");
  EXPECT_EQ(agent.get("d/").error_code(), "is_a_directory");
  EXPECT_EQ(agent.get("f/").error_code(), "not_a_directory");
  EXPECT_EQ(agent.get("pipe").error_code(), "not_a_file");
  EXPECT_EQ(agent.get("/dev/null").error_code(), "not_a_file");
  EXPECT_EQ(agent.get("f", "&list=1").error_code(), "not_a_directory");
  EXPECT_EQ(agent.put("d", "x").error_code(), "is_a_directory");
  EXPECT_EQ(agent.put("d/", "x").error_code(), "is_a_directory");
  EXPECT_EQ(agent.put("f/x", "x").error_code(), "not_a_directory");
  EXPECT_EQ(agent.put("pipe", "x").error_code(), "not_a_file");
  EXPECT_EQ(agent.put("/dev/null", "x").error_code(), "not_a_file");
  EXPECT_EQ(agent.put("", "x").error_code(), "path_invalid");
  EXPECT_EQ(agent.ask({.target = "/files"}).error_code(), "missing_field");
  EXPECT_EQ(agent.ask({.target = "/files?path=f&path=d"}).status, 400);
  EXPECT_EQ(agent.ask({.target = "/files?path=f&color=red"}).error_code(), "unknown_field");
  EXPECT_EQ(agent.ask({.target = "/files?path=a%00b"}).error_code(), "path_invalid");
}

TEST(Files, a_listing_tells_types_and_goes_as_deep_as_asked) {
  const TestAgent agent;
  const std::string folder = agent.folder() + "/l";
  ASSERT_TRUE(base::sys::make_folders(folder + "/a/b", 0755));
  write(folder + "/a/b/deep", "12345", 0640);
  ASSERT_EQ(::symlink("a/b", (folder + "/link").c_str()), 0);
  const auto flat = agent.get(folder, "&list=1").json().at("items").as_array();
  EXPECT_EQ(flat.size(), 2U);
  const auto all = agent.get(folder, "&list=1&depth=3").json().at("items").as_array();
  ASSERT_EQ(all.size(), 4U);
  for (const auto& item : all) {
    const auto& entry = item.as_object();
    if (text_of(entry, "name") == "deep") {
      EXPECT_EQ(text_of(entry, "path"), folder + "/a/b/deep");
      EXPECT_EQ(text_of(entry, "type"), "file");
      EXPECT_EQ(text_of(entry, "mode"), "0640");
      EXPECT_EQ(entry.at("size").as_int64(), 5);
    }
    if (text_of(entry, "name") == "link") {
      EXPECT_EQ(text_of(entry, "type"), "symlink");
      EXPECT_EQ(text_of(entry, "link_target"), "a/b");
    }
  }
  EXPECT_EQ(agent.get(folder, "&list=1&depth=0").error_code(), "invalid_field");
}

TEST(Files, a_file_of_proc_that_tells_no_size_is_read) {
  const TestAgent agent;
  EXPECT_FALSE(agent.get("/proc/version").body.empty());
}

}  // namespace
}  // namespace agent
