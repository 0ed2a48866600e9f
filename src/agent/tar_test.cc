// Archives up and down through a whole agent, and the other changes of files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "agent/agent_testing.h"
#include "base/sys.h"
#include "wire/tar_reader.h"
#include "wire/tar_testing.h"

namespace agent {
namespace {

using wire::TarBuilder;
using wire::tar::EntryType;

struct Tar : ::testing::Test {
  TestAgent agent;
  std::string folder = agent.folder() + "/t";

  Tar() { ::mkdir(folder.c_str(), 0755); }
  [[nodiscard]] Answer up(const std::string& bytes, std::string_view more = "",
                          std::string_view path = "t") const {
    return agent.put(path, bytes, base::cat("&tar=1", more));
  }
  // The archive of a folder, by path.
  std::map<std::string, std::pair<wire::tar::Entry, std::string>> down(
      std::string_view path = "t", std::string_view more = "") const {
    const Answer answer = agent.get(path, base::cat("&tar=1", more));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.whole);
    std::map<std::string, std::pair<wire::tar::Entry, std::string>> out;
    wire::tar::Reader reader;
    std::string_view rest = answer.body;
    std::string* content = nullptr;
    for (bool more_input = true; more_input;) {
      const auto step = reader.next(rest);
      if (!step) {
        ADD_FAILURE() << step.error().message;
        return out;
      }
      rest.remove_prefix(step->consumed);
      using Found = wire::tar::Reader::Found;
      if (step->found == Found::entry) {
        auto& place = out[reader.entry().path];
        place.first = reader.entry();
        content = &place.second;
        content->resize(reader.entry().size);
      } else if (step->found == Found::data) {
        content->replace(step->offset, step->data.size(), step->data);
      }
      more_input = step->found != Found::more_input;
    }
    EXPECT_TRUE(reader.end_of_input().has_value());
    return out;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    return base::sys::read_file(folder + "/" + name, 100'000'000).value_or("(none)");
  }
  void write(const std::string& name, const std::string& bytes, mode_t mode = 0644) const {
    EXPECT_TRUE(base::sys::replace_file(folder + "/" + name, bytes, mode));
  }
  [[nodiscard]] struct stat status(const std::string& name) const {
    struct stat out{};
    EXPECT_EQ(::lstat((folder + "/" + name).c_str(), &out), 0) << name;
    return out;
  }
  [[nodiscard]] size_t entries() const {
    return base::sys::list_folder(folder).value_or(std::vector<std::string>()).size();
  }
};

TEST_F(Tar, a_tree_is_laid_out_with_modes_times_and_links) {
  const Answer answer = up(TarBuilder()
                               .add({.name = "./", .type = '5', .mode = 0700})
                               .folder("d/", 0750)
                               .add({.name = "d/run", .data = "#!", .mode = 04755})
                               .link("d/soft", "run")
                               .hardlink("d/hard", "d/run")
                               .folder("d/empty", 0555)
                               .file("made/on/the/way", "x")
                               .add({.name = "tagged",
                                     .data = "t",
                                     .pax = {{"SCHILY.xattr.user.note", "v"},
                                             {"SCHILY.xattr.trusted.x", "no"},
                                             {"mtime", "1700000000.5"}}})
                               .finish());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("files").as_int64(), 3);
  EXPECT_EQ(answer.json().at("links").as_int64(), 2);
  EXPECT_EQ(status("").st_mode & 07777, 0755U);  // what is there keeps its mode
  EXPECT_EQ(status("d").st_mode & 07777, 0750U);
  EXPECT_EQ(status("d").st_mtim.tv_sec, 1'700'000'000);
  EXPECT_EQ(status("d/empty").st_mode & 07777, 0555U);
  EXPECT_EQ(status("d/run").st_mode & 07777, 04755U);
  EXPECT_EQ(status("d/run").st_nlink, 2U);
  EXPECT_EQ(status("made/on/the").st_mode & 07777, 0755U);
  EXPECT_EQ(std::filesystem::read_symlink(folder + "/d/soft"), "run");
  EXPECT_EQ(status("tagged").st_mtim.tv_nsec, 500'000'000);
  EXPECT_EQ(entries(), 3U);  // nothing hidden is left
}

TEST_F(Tar, uploads_merge_and_replace_files_by_files) {
  write("keep", "kept");
  write("old", "old", 0600);
  ASSERT_EQ(::chown((folder + "/old").c_str(), 4711, 4712), 0);
  ASSERT_EQ(::symlink("keep", (folder + "/link").c_str()), 0);
  const std::string bytes = TarBuilder()
                                .file("old", "new")
                                .file("link", "file")
                                .folder("sub")
                                .file("sub/f", "1")
                                .finish();
  EXPECT_EQ(up(bytes).status, 200);
  EXPECT_EQ(up(bytes).status, 200);  // again, over itself
  EXPECT_EQ(content("keep"), "kept");
  EXPECT_EQ(content("old"), "new");
  EXPECT_EQ(status("old").st_uid, 4711U);
  EXPECT_EQ(status("old").st_mode & 07777, 0644U);
  EXPECT_TRUE(S_ISREG(status("link").st_mode));
  EXPECT_EQ(content("sub/f"), "1");
  EXPECT_EQ(entries(), 4U);
}

TEST_F(Tar, a_new_target_is_made_with_the_mode_of_its_root) {
  const std::string bytes =
      TarBuilder().add({.name = ".", .type = '5', .mode = 0711}).file("f", "1").finish();
  EXPECT_EQ(up(bytes, "", "t/a/b").status, 200);
  EXPECT_EQ(content("a/b/f"), "1");
  EXPECT_EQ(status("a/b").st_mode & 07777, 0711U);
  EXPECT_EQ(up(bytes, "", "t/a/b").status, 200);  // merges, does not nest
  EXPECT_EQ(base::sys::list_folder(folder + "/a").value().size(), 1U);
  write("file", "x");
  EXPECT_EQ(up(bytes, "", "t/file").error_code(), "not_a_directory");
}

TEST_F(Tar, members_in_any_order_and_twice_come_out_right) {
  const Answer answer = up(TarBuilder()
                               .file("a/1", "1")
                               .file("b/1", "1")
                               .folder("a", 0700)
                               .file("a/2", "2")
                               .file("a/1", "again")
                               .hardlink("b/link", "a/2")
                               .folder("b", 0555)
                               .file("b/late", "l")
                               .finish());
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(content("a/1"), "again");
  EXPECT_EQ(content("b/link"), "2");
  EXPECT_EQ(content("b/late"), "l");
  EXPECT_EQ(entries(), 2U);
}

// Small files are written beside: whatever comes after which, the tree is what one after the other
// would give.
TEST_F(Tar, files_written_beside_come_out_in_their_order) {
  std::minstd_rand random(7);
  const auto up_to = [&random](size_t bound) { return static_cast<int>(random() % bound); };
  for (int round = 0; round < 8; ++round) {
    TarBuilder archive;
    archive.folder("d0").link("alias", "d0");
    std::map<std::string, std::string> expected;
    for (int i = 0; i < 400; ++i) {
      const bool by_alias = up_to(12) == 0;
      const std::string folder_name = base::cat("d", by_alias ? 0 : up_to(5));
      const std::string name = base::cat("/f", up_to(20));
      const std::string path = (by_alias ? "alias" : folder_name) + name;
      if (up_to(10) == 0 && !expected.empty()) {
        const auto target = std::next(expected.begin(), up_to(expected.size()));
        if (target->first != folder_name + name) {
          archive.hardlink(path, target->first);
          expected[folder_name + name] = target->second;
        }
        continue;
      }
      const auto size = static_cast<size_t>(up_to(20) == 0 ? 40'000 : up_to(700));
      const std::string bytes(size, static_cast<char>('a' + up_to(26)));
      archive.file(path, bytes);
      expected[folder_name + name] = bytes;
    }
    const std::string target = base::cat("round", round);
    const std::string user = round % 2 == 0 ? "" : "&user=4711";
    ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
    const Answer answer = up(archive.finish(), user, base::cat("t/", target));
    ASSERT_EQ(answer.status, 200) << answer.body;
    for (const auto& [path, bytes] : expected) {
      ASSERT_EQ(content(base::cat(target, "/", path)), bytes) << path << " of round " << round;
      ASSERT_EQ(status(base::cat(target, "/", path)).st_uid, user.empty() ? 0U : 4711U);
    }
  }
}

TEST_F(Tar, a_file_written_beside_is_in_the_way_of_a_folder) {
  const Answer answer = up(TarBuilder()
                               .folder("a")
                               .file("a/0", "")
                               .folder("b")
                               .file("b/f", "1")
                               .file("b/f/g", "2")
                               .finish(),
                           "", "t/new");
  EXPECT_EQ(answer.error_code(), "not_a_directory") << answer.body;
  EXPECT_EQ(content("new/b/f"), "1");
  const auto details = answer.json().at("error").as_object().at("details").as_object();
  EXPECT_EQ(text_of(details, "written_count"), "4");
}

TEST_F(Tar, a_full_disk_is_told_of_files_written_beside_too) {
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "no right to mount";
  }
  TarBuilder archive;
  for (int i = 0; i < 400; ++i) {
    archive.file(base::cat("d", i / 10, "/f", i), std::string(8000, 'x'));
  }
  const Answer full = up(archive.finish(), "", "t/new");
  EXPECT_EQ(full.error_code(), "disk_full");
  const auto details = full.json().at("error").as_object().at("details").as_object();
  int64_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/new")) {
    ++found;
    EXPECT_TRUE(entry.is_directory() || entry.file_size() == 8000) << entry.path();
  }
  EXPECT_EQ(text_of(details, "written_count"), std::to_string(found));
  ::umount(folder.c_str());
}

// FI-02
TEST_F(Tar, no_member_leads_out_of_the_target) {
  const std::string outside = agent.folder() + "/outside";
  ::mkdir(outside.c_str(), 0755);
  ASSERT_EQ(::symlink(outside.c_str(), (folder + "/out").c_str()), 0);
  const auto refused = [&](const TarBuilder& archive, const std::string& member) {
    const Answer answer = up(archive.finish());
    EXPECT_EQ(answer.status, 422) << member << answer.body;
    EXPECT_EQ(answer.error_code(), "archive_invalid");
    const auto error = answer.json().at("error").as_object();
    EXPECT_EQ(text_of(error.at("details").as_object(), "member"), member);
  };
  refused(TarBuilder().file("../up", "x"), "../up");
  refused(TarBuilder().file("/abs", "x"), "/abs");
  refused(TarBuilder().file("a/../../mid", "x"), "a/../../mid");
  refused(TarBuilder().file("out/f", "x"), "out/f");
  refused(TarBuilder().folder("out/d"), "out/d");
  refused(TarBuilder().folder("out"), "out");
  refused(TarBuilder().link("d", outside).file("d/f", "x"), "d/f");
  refused(TarBuilder().link("p", ".").link("p/q", "../..").file("p/q/f", "x"), "p/q/f");
  refused(TarBuilder().link("s", "..").file("s/f", "x"), "s/f");
  refused(TarBuilder().folder("n").link("n/s", "../..").file("n/s/f", "x"), "n/s/f");
  refused(TarBuilder().hardlink("h1", "/etc/passwd"), "h1");
  refused(TarBuilder().hardlink("h2", "../../etc/passwd"), "h2");
  refused(TarBuilder().hardlink("h3", "out/x"), "h3");
  refused(TarBuilder().hardlink("h4", "none"), "h4");
  refused(TarBuilder().add({.name = "dev", .type = '3'}), "dev");
  refused(TarBuilder().add({.name = "blk", .type = '4'}), "blk");
  refused(TarBuilder().add({.name = "pipe", .type = '6'}), "pipe");
  const std::string long_name(256, 'n');
  refused(TarBuilder().add({.name = "long", .data = "x", .pax = {{"path", long_name}}}), long_name);
  EXPECT_EQ(base::sys::list_folder(outside).value().size(), 0U);
  EXPECT_FALSE(std::filesystem::exists(agent.folder() + "/up"));
  EXPECT_FALSE(std::filesystem::exists(agent.folder() + "/f"));
}

TEST_F(Tar, links_inside_of_the_target_may_be_gone_through) {
  ::mkdir((folder + "/usr").c_str(), 0755);
  ASSERT_EQ(::symlink("usr", (folder + "/lib").c_str()), 0);
  const Answer answer = up(
      TarBuilder().folder("lib").file("lib/f", "1").link("own", "usr").file("own/g", "2").finish());
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(content("usr/f"), "1");
  EXPECT_EQ(content("usr/g"), "2");
  EXPECT_TRUE(S_ISLNK(status("lib").st_mode));
}

TEST_F(Tar, a_file_and_a_folder_do_not_take_each_others_place) {
  write("f", "x");
  ::mkdir((folder + "/d").c_str(), 0755);
  EXPECT_EQ(up(TarBuilder().file("d", "x").finish()).error_code(), "is_a_directory");
  EXPECT_EQ(up(TarBuilder().link("d", "/tmp").finish()).error_code(), "is_a_directory");
  EXPECT_EQ(up(TarBuilder().folder("f").finish()).error_code(), "not_a_directory");
  EXPECT_EQ(up(TarBuilder().file("f/x", "x").finish()).error_code(), "not_a_directory");
  EXPECT_EQ(
      up(TarBuilder().folder("x").file("x/f", "1").link("x", "/tmp").file("x/f2", "2").finish())
          .error_code(),
      "is_a_directory");
  EXPECT_EQ(content("x/f"), "1");
  ASSERT_EQ(::mkfifo((folder + "/pipe").c_str(), 0644), 0);
  EXPECT_EQ(up(TarBuilder().file("pipe", "x").finish()).error_code(), "not_a_file");
}

TEST_F(Tar, what_was_whole_before_an_error_stays_and_is_told) {
  const Answer answer = up(TarBuilder()
                               .folder("new")
                               .file("new/a", "1")
                               .file("b", "2")
                               .file("../c", "3")
                               .file("d", "4")
                               .finish());
  const auto details = answer.json().at("error").as_object().at("details").as_object();
  EXPECT_EQ(text_of(details, "written_count"), "3");
  EXPECT_EQ(text_of(details, "written"), "new\nnew/a\nb");
  EXPECT_EQ(content("new/a"), "1");
  EXPECT_EQ(content("b"), "2");
  EXPECT_EQ(entries(), 2U);
}

TEST_F(Tar, a_cut_archive_leaves_no_half_file) {
  const std::string big(3'000'000, 'b');
  const std::string bytes = TarBuilder().file("old", "new").file("new/big", big).finish();
  write("old", "was");
  const Answer cut = up(bytes.substr(0, 2'000'000));
  EXPECT_EQ(cut.error_code(), "archive_invalid");
  EXPECT_EQ(content("old"), "new");
  EXPECT_EQ(content("new/big"), "(none)");
  const std::string other = TarBuilder().file("other/big", big).finish();
  {
    TestClient client(agent.socket_path());
    client.send("PUT /files?path=t&tar=1 HTTP/1.1\r\nhost: a\r\ncontent-length: 9000000\r\n\r\n" +
                other.substr(0, 2'000'000));
    EXPECT_TRUE(eventually([&] { return entries() == 3; }));
    EXPECT_FALSE(std::filesystem::exists(folder + "/other"));  // hidden until it is whole
  }
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(folder + "/other"); }));
  EXPECT_EQ(base::sys::list_folder(folder + "/other").value().size(), 0U);
  EXPECT_EQ(content("new/big"), "(none)");
  EXPECT_EQ(up("no archive", "", "t/none").error_code(), "archive_invalid");
  EXPECT_FALSE(std::filesystem::exists(folder + "/none"));
}

TEST_F(Tar, a_full_disk_is_told_and_leaves_no_half_file) {
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "no right to mount";
  }
  write("keep", "kept");
  const Answer full =
      up(TarBuilder().file("first", "1").file("keep", std::string(3'000'000, 'x')).finish());
  EXPECT_EQ(full.status, 507);
  EXPECT_EQ(full.error_code(), "disk_full");
  EXPECT_EQ(content("keep"), "kept");
  EXPECT_EQ(content("first"), "1");
  EXPECT_EQ(entries(), 2U);
  ASSERT_EQ(::mount("", folder.c_str(), "", MS_REMOUNT | MS_RDONLY, ""), 0);
  EXPECT_EQ(up(TarBuilder().file("x", "1").finish()).error_code(), "read_only");
  EXPECT_EQ(agent.ask({.method = "DELETE", .target = "/files?path=t/keep"}).error_code(),
            "read_only");
  ::umount(folder.c_str());
}

TEST_F(Tar, the_users_rights_decide) {
  ASSERT_EQ(::chown(folder.c_str(), 4711, 4711), 0);
  const auto archive = [] {
    return TarBuilder()
        .add({.name = "d/", .type = '5', .mode = 02555, .uid = 77, .gid = 77})
        .add({.name = "d/f", .data = "1", .mode = 04755, .uid = 77, .gid = 77})
        .finish();
  };
  EXPECT_EQ(up(archive(), "&user=4711").status, 200);
  EXPECT_EQ(status("d/f").st_uid, 4711U);
  EXPECT_EQ(status("d/f").st_mode & 07777, 0755U);  // no set-user-id by another than root
  EXPECT_EQ(status("d").st_mode & 07777, 0555U);
  EXPECT_EQ(up(archive(), "&user=4712").error_code(), "permission_denied");
  EXPECT_EQ(up(archive(), "&user=4711&preserve_owner=1").error_code(), "permission_denied");
  EXPECT_EQ(up(archive(), "&preserve_owner=1", "t/own").status, 200);
  EXPECT_EQ(status("own/d").st_uid, 77U);
  EXPECT_EQ(status("own/d/f").st_gid, 77U);
  EXPECT_EQ(status("own/d/f").st_mode & 07777, 04755U);
  write("secret", "s", 0600);
  const Answer denied = agent.get("t", "&tar=1&user=4711");
  EXPECT_EQ(denied.error_code(), "permission_denied");
  EXPECT_NE(denied.body.find("secret"), std::string::npos);
}

TEST_F(Tar, a_download_holds_the_tree_and_the_round_trip_keeps_it) {
  ASSERT_TRUE(base::sys::make_folders(folder + "/a/empty", 0750));
  write("a/x", "hello", 04751);
  ASSERT_EQ(::link((folder + "/a/x").c_str(), (folder + "/y").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (folder + "/soft").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder + "/pipe").c_str(), 0644), 0);
  const int hole = ::open((folder + "/hole").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::pwrite(hole, "mid", 3, 5'000'000), 3);
  ASSERT_EQ(::ftruncate(hole, 9'000'000), 0);
  ::close(hole);
  const std::string odd = std::string(180, 'n') + "\xff\xfe";
  write(odd, "odd");
  const auto got = down();
  EXPECT_EQ(got.size(), 8U);  // not the pipe
  EXPECT_EQ(got.at("./").first.type, EntryType::folder);
  EXPECT_EQ(got.at("./a/empty/").first.mode, 0750U);
  EXPECT_EQ(got.at("./" + odd).second, "odd");
  EXPECT_TRUE(got.at("./hole").first.is_sparse);
  EXPECT_EQ(got.at("./hole").second.substr(5'000'000, 3), "mid");
  const bool y_first = got.at("./y").first.type == EntryType::file;
  EXPECT_EQ(got.at(y_first ? "./a/x" : "./y").first.type, EntryType::hardlink);

  const Answer bytes = agent.get("t", "&tar=1");
  EXPECT_EQ(bytes.header("content-type"), "application/x-tar");
  EXPECT_EQ(up(bytes.body, "", "t2").status, 200);
  const auto again = down("t2");
  EXPECT_EQ(again.size(), 8U);
  for (const auto& [path, member] : again) {
    const auto& was = got.at(path);
    EXPECT_EQ(member.first.mode, was.first.mode) << path;
    EXPECT_EQ(member.first.modified, was.first.modified) << path;
    EXPECT_EQ(member.first.target.empty(), was.first.target.empty());
    EXPECT_TRUE(member.second == was.second) << path;
  }
  EXPECT_EQ(agent.get("t/y", "&tar=1").error_code(), "not_a_directory");
  EXPECT_EQ(agent.get("t/none", "&tar=1").error_code(), "file_not_found");
}

// FI-06
TEST_F(Tar, a_file_that_shrinks_while_it_is_sent_keeps_its_announced_size) {
  write("cut", std::string(20'000'000, 'c'));
  TestClient client(agent.socket_path());
  client.send({.target = "/files?path=t&tar=1"});
  ASSERT_EQ(agent.get("t", "&list=1").status, 200);
  ASSERT_EQ(::truncate((folder + "/cut").c_str(), 0), 0);
  const Answer cut = client.receive();
  EXPECT_TRUE(cut.whole);
  EXPECT_GT(cut.body.size(), 20'000'000U);
}

TEST_F(Tar, a_download_of_megabytes_lets_others_have_their_turn) {
  for (int i = 0; i < 50; ++i) {
    write(base::cat("f", i), std::string(400'000, 'x'));
  }
  const auto got = down();
  EXPECT_EQ(got.size(), 51U);
  EXPECT_TRUE(got.at("./f49").second == std::string(400'000, 'x'));
}

TEST_F(Tar, parameters_are_checked) {
  EXPECT_EQ(agent.get("t", "&tar=1&list=1").error_code(), "invalid_field");
  EXPECT_EQ(agent.get("t", "&tar=maybe").error_code(), "invalid_field");
  EXPECT_EQ(up("", "&mode=644").error_code(), "invalid_field");
  EXPECT_EQ(agent.put("t/f", "", "&preserve_owner=1").error_code(), "invalid_field");
  EXPECT_EQ(agent.put("t/f", "", "&recursive=1").error_code(), "unknown_field");
}

struct Changes : Tar {
  Answer ask(std::string_view method, std::string_view target) const {
    return agent.ask({.method = std::string(method), .target = std::string(target)});
  }
};

TEST_F(Changes, removal_takes_a_tree_but_follows_no_link) {
  ASSERT_TRUE(base::sys::make_folders(folder + "/d/e/f", 0755));
  write("keep", "k");
  ASSERT_EQ(::symlink("../keep", (folder + "/d/link").c_str()), 0);
  ASSERT_EQ(::symlink("d", (folder + "/to_d").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder + "/d/e/pipe").c_str(), 0644), 0);
  for (int i = 0; i < 2000; ++i) {
    write(base::cat("d/e/f/", i), "");
  }
  EXPECT_EQ(ask("DELETE", "/files?path=t/d").error_code(), "is_a_directory");
  EXPECT_EQ(ask("DELETE", "/files?path=t/to_d/&recursive=1").status, 204);
  EXPECT_TRUE(std::filesystem::exists(folder + "/d/e/f/0"));
  EXPECT_EQ(ask("DELETE", "/files?path=t/d&recursive=1&user=4711").error_code(),
            "permission_denied");
  EXPECT_EQ(ask("DELETE", "/files?path=t/d&recursive=1").status, 204);
  EXPECT_FALSE(std::filesystem::exists(folder + "/d"));
  EXPECT_EQ(content("keep"), "k");
  EXPECT_EQ(ask("DELETE", "/files?path=t/d&recursive=1").error_code(), "file_not_found");
  EXPECT_EQ(ask("DELETE", "/files?path=/&recursive=1").error_code(), "path_invalid");
  EXPECT_EQ(ask("DELETE", "/files?path=t/keep").status, 204);
}

TEST_F(Changes, removal_crosses_no_mount) {
  ASSERT_TRUE(base::sys::make_folders(folder + "/d/m", 0755));
  if (::mount("tmpfs", (folder + "/d/m").c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "no right to mount";
  }
  write("d/m/inside", "x");
  EXPECT_EQ(ask("DELETE", "/files?path=t/d&recursive=1").error_code(), "in_use");
  EXPECT_EQ(content("d/m/inside"), "x");
  EXPECT_EQ(ask("DELETE", "/files?path=t/d/m&recursive=1").error_code(), "in_use");
  ::umount((folder + "/d/m").c_str());
}

TEST_F(Changes, folders_are_made_with_parents_and_again) {
  const Answer made = ask("POST", "/files/mkdir?path=t/a/b&mode=750&owner=4711:4712");
  EXPECT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(text_of(made.json(), "mode"), "0750");
  EXPECT_EQ(made.json().at("uid").as_int64(), 4711);
  EXPECT_EQ(status("a").st_mode & 07777, 0755U);
  EXPECT_EQ(ask("POST", "/files/mkdir?path=t/a/b").status, 200);
  EXPECT_EQ(status("a/b").st_mode & 07777, 0750U);
  write("f", "x");
  EXPECT_EQ(ask("POST", "/files/mkdir?path=t/f").error_code(), "file_exists");
  EXPECT_EQ(ask("POST", "/files/mkdir?path=t/f/x").error_code(), "not_a_directory");
  EXPECT_EQ(ask("POST", "/files/mkdir?path=t/u&user=4711").error_code(), "permission_denied");
  EXPECT_EQ(ask("GET", "/files/mkdir?path=t/u").error_code(), "method_not_allowed");
  EXPECT_EQ(ask("POST", "/files/none?path=t/u").error_code(), "not_found");
}

TEST_F(Changes, moves_take_exactly_the_new_path) {
  write("a", "1");
  write("b", "2");
  EXPECT_EQ(ask("POST", "/files/move?path=t/a&to=t/b").error_code(), "file_exists");
  EXPECT_EQ(ask("POST", "/files/move?path=t/a&to=t/b&overwrite=1").status, 200);
  EXPECT_EQ(content("b"), "1");
  EXPECT_EQ(ask("POST", "/files/move?path=t/b&to=t/new/deep/c").status, 200);
  EXPECT_EQ(content("new/deep/c"), "1");
  EXPECT_EQ(ask("POST", "/files/move?path=t/none&to=t/x").error_code(), "file_not_found");
  EXPECT_EQ(ask("POST", "/files/move?path=t/new").error_code(), "missing_field");
  EXPECT_EQ(ask("POST", "/files/move?path=t/new&to=t/new/inside").error_code(), "path_invalid");
}

TEST_F(Changes, a_folder_moves_to_another_file_system) {
  ASSERT_TRUE(base::sys::make_folders(folder + "/other", 0755));
  ASSERT_TRUE(base::sys::make_folders(folder + "/d/e", 0711));
  if (::mount("tmpfs", (folder + "/other").c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "no right to mount";
  }
  write("d/e/f", "x", 0640);
  ASSERT_EQ(::chown((folder + "/d/e/f").c_str(), 4711, 4712), 0);
  EXPECT_EQ(ask("POST", "/files/move?path=t/d&to=t/other/d").status, 200);
  EXPECT_EQ(content("other/d/e/f"), "x");
  EXPECT_EQ(status("other/d/e/f").st_uid, 4711U);
  EXPECT_EQ(status("other/d/e").st_mode & 07777, 0711U);
  EXPECT_FALSE(std::filesystem::exists(folder + "/d"));
  write("other/d/big", std::string(3'000'000, 'x'));
  ASSERT_TRUE(base::sys::make_folders(folder + "/full", 0755));
  write("full/big", std::string(3'000'000, 'x'));
  EXPECT_EQ(ask("POST", "/files/move?path=t/full&to=t/other/full").error_code(), "disk_full");
  EXPECT_TRUE(std::filesystem::exists(folder + "/full/big"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/other/full"));
  ::umount((folder + "/other").c_str());
}

TEST_F(Changes, modes_and_owners_change_as_the_user_may) {
  ASSERT_TRUE(base::sys::make_folders(folder + "/d/e", 0755));
  write("d/e/f", "x");
  ASSERT_EQ(::symlink("/etc/passwd", (folder + "/d/link").c_str()), 0);
  const mode_t passwd =
      std::filesystem::status("/etc/passwd").permissions() == std::filesystem::perms::unknown
          ? 0
          : static_cast<mode_t>(std::filesystem::status("/etc/passwd").permissions());
  EXPECT_EQ(text_of(ask("POST", "/files/chmod?path=t/d/e/f&mode=4711").json(), "mode"), "4711");
  EXPECT_EQ(ask("POST", "/files/chmod?path=t/d&mode=711&owner=4711:4712&recursive=1").status, 200);
  EXPECT_EQ(status("d/e/f").st_mode & 07777, 0711U);
  EXPECT_EQ(status("d/e/f").st_gid, 4712U);
  EXPECT_EQ(status("d/link").st_uid, 4711U);
  EXPECT_EQ(static_cast<mode_t>(std::filesystem::status("/etc/passwd").permissions()), passwd);
  EXPECT_EQ(ask("POST", "/files/chmod?path=t/d&mode=700&user=4711").status, 200);
  EXPECT_EQ(ask("POST", "/files/chmod?path=t/d&mode=700&user=4713").error_code(),
            "permission_denied");
  EXPECT_EQ(ask("POST", "/files/chmod?path=t/d&owner=0&user=4711").error_code(),
            "permission_denied");
  EXPECT_EQ(ask("POST", "/files/chmod?path=t/d").error_code(), "missing_field");
}

TEST_F(Changes, stat_shows_a_link_itself) {
  ASSERT_EQ(::symlink("x", (folder + "/l").c_str()), 0);
  const auto item = agent.get("t/l", "&stat=1").json();
  EXPECT_EQ(text_of(item, "type"), "symlink");
  EXPECT_EQ(text_of(item, "link_target"), "x");
  EXPECT_EQ(text_of(item, "name"), "l");
  EXPECT_EQ(text_of(agent.get("t/", "&stat=1").json(), "type"), "directory");
  EXPECT_EQ(text_of(agent.get("/", "&stat=1").json(), "path"), "/");
  EXPECT_EQ(agent.get("t/none", "&stat=1").error_code(), "file_not_found");
}

}  // namespace
}  // namespace agent
