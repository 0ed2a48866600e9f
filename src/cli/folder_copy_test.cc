// Folders to tar streams and back: what a copy keeps, and that nothing hostile gets out.
#include <archive.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>

#include "base/sys.h"
#include "cli/folder_reader.h"
#include "cli/folder_writer.h"
#include "wire/tar_testing.h"

namespace cli {
namespace {

constexpr size_t kBytesMax = 64UL << 20U;

class FolderCopy : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sandbox-cli-copy-XXXXXX";
    base_ = ::mkdtemp(name);
    from_ = base_ + "/from";
    to_ = base_ + "/to";
    ASSERT_EQ(::mkdir(from_.c_str(), 0755), 0);
    mask_ = ::umask(022);
  }
  void TearDown() override {
    ::umask(mask_);
    (void)base::sys::remove_tree(base_);
  }

  std::string read_all(const std::string& path, Packing packing = Packing::plain) {
    auto reader = FolderReader::open(path, packing);
    EXPECT_TRUE(reader) << (reader ? "" : reader.error().message);
    std::string bytes;
    std::string buffer(4096, '\0');
    while (reader) {
      const auto got = (*reader)->read(buffer);
      EXPECT_TRUE(got) << got.error().message;
      if (!got || *got == 0) {
        left_out_ = (*reader)->left_out();
        break;
      }
      bytes.append(buffer, 0, *got);
    }
    return bytes;
  }

  Result<void> lay_out(const std::string& tar) {
    const std::unique_ptr<::archive, int (*)(::archive*)> from(::archive_read_new(),
                                                               ::archive_read_free);
    ::archive_read_support_format_tar(from.get());
    ::archive_read_support_format_empty(from.get());
    ::archive_read_support_filter_zstd(from.get());
    if (::archive_read_open_memory(from.get(), tar.data(), tar.size()) != ARCHIVE_OK) {
      return base::fail(base::ErrorCode::archive_invalid, "no archive");
    }
    auto writer = FolderWriter::open(to_);
    EXPECT_TRUE(writer);
    auto outcome = writer->take_all(from.get());
    left_out_ = writer->left_out();
    return outcome;
  }

  struct stat look(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::lstat((to_ + "/" + path).c_str(), &status), 0) << path;
    return status;
  }

  std::string base_, from_, to_;
  int64_t left_out_ = 0;
  mode_t mask_ = 0;
};

TEST_F(FolderCopy, keeps_modes_times_links_and_names_of_any_bytes) {
  ASSERT_EQ(::mkdir((from_ + "/empty").c_str(), 0750), 0);
  ASSERT_EQ(::mkdir((from_ + "/closed").c_str(), 0755), 0);
  ASSERT_TRUE(base::sys::replace_file(from_ + "/closed/in", "in", 0640));
  ASSERT_TRUE(base::sys::replace_file(from_ + "/tool", std::string(1'000'000, 't'), 0755));
  ASSERT_TRUE(base::sys::replace_file(from_ + "/not-utf8-\xff\xfe", "bytes", 0644));
  ASSERT_TRUE(base::sys::replace_file(from_ + "/" + std::string(200, 'n'), "", 0600));
  ASSERT_EQ(::symlink("tool", (from_ + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("/etc/passwd", (from_ + "/absolute").c_str()), 0);
  ASSERT_EQ(::link((from_ + "/tool").c_str(), (from_ + "/twin").c_str()), 0);
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1'600'000'000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (from_ + "/tool").c_str(), times, 0), 0);
  ASSERT_EQ(::chmod((from_ + "/closed").c_str(), 0555), 0);
  ASSERT_EQ(::utimensat(AT_FDCWD, (from_ + "/empty").c_str(), times, 0), 0);

  const auto outcome = lay_out(read_all(from_));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(look("empty").st_mode & 07777U, 0750U);
  EXPECT_EQ(look("empty").st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(look("closed").st_mode & 07777U, 0555U);
  EXPECT_EQ(base::sys::read_file(to_ + "/closed/in", kBytesMax), "in");
  EXPECT_EQ(look("tool").st_mode & 07777U, 0755U);
  EXPECT_EQ(look("tool").st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(base::sys::read_file(to_ + "/tool", kBytesMax), std::string(1'000'000, 't'));
  EXPECT_EQ(look("twin").st_ino, look("tool").st_ino);
  EXPECT_EQ(base::sys::read_file(to_ + "/not-utf8-\xff\xfe", kBytesMax), "bytes");
  EXPECT_EQ(look(std::string(200, 'n')).st_size, 0);
  EXPECT_TRUE(S_ISLNK(look("link").st_mode) && S_ISLNK(look("absolute").st_mode));
  EXPECT_EQ(base::sys::list_folder(to_)->size(), base::sys::list_folder(from_)->size());
  ::chmod((from_ + "/closed").c_str(), 0755);
  ::chmod((to_ + "/closed").c_str(), 0755);
}

TEST_F(FolderCopy, tells_nothing_of_the_owner_here_and_leaves_pipes_out) {
  ASSERT_EQ(::mkfifo((from_ + "/pipe").c_str(), 0644), 0);
  ASSERT_TRUE(base::sys::replace_file(from_ + "/file", "x", 0644));
  ASSERT_EQ(::chown((from_ + "/file").c_str(), 12345, 54321), 0);
  const std::string tar = read_all(from_);
  EXPECT_EQ(left_out_, 1);
  EXPECT_FALSE(tar.contains("./pipe"));
  EXPECT_FALSE(tar.contains("0030071"));  // 12345
  EXPECT_FALSE(tar.contains("root"));
}

TEST_F(FolderCopy, a_link_to_a_folder_is_the_folder_when_it_is_named) {
  ASSERT_TRUE(base::sys::replace_file(from_ + "/file", "x", 0644));
  ASSERT_EQ(::symlink(from_.c_str(), (base_ + "/alias").c_str()), 0);
  ASSERT_TRUE(lay_out(read_all(base_ + "/alias/")));
  EXPECT_EQ(base::sys::read_file(to_ + "/file", kBytesMax), "x");
}

TEST_F(FolderCopy, a_packed_stream_is_the_same_folder_and_smaller) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(base::sys::replace_file(base::cat(from_, "/", i), std::string(50'000, 'x'), 0644));
  }
  const std::string packed = read_all(from_, Packing::zstd);
  EXPECT_LT(packed.size(), 100'000U);
  ASSERT_TRUE(lay_out(packed));
  EXPECT_EQ(base::sys::list_folder(to_)->size(), 20U);
  EXPECT_EQ(base::sys::read_file(to_ + "/7", kBytesMax), std::string(50'000, 'x'));
}

TEST_F(FolderCopy, merges_and_replaces_files_but_no_folder) {
  ASSERT_TRUE(base::sys::make_folders(to_ + "/d", 0755));
  ASSERT_TRUE(base::sys::replace_file(to_ + "/d/kept", "kept", 0644));
  ASSERT_TRUE(base::sys::replace_file(to_ + "/d/old", "old, and longer", 0600));
  ASSERT_TRUE(lay_out(wire::TarBuilder().folder("d").file("d/old", "new").finish()));
  EXPECT_EQ(base::sys::read_file(to_ + "/d/kept", kBytesMax), "kept");
  EXPECT_EQ(base::sys::read_file(to_ + "/d/old", kBytesMax), "new");
  EXPECT_FALSE(lay_out(wire::TarBuilder().file("d", "a file").finish()));
  EXPECT_FALSE(lay_out(wire::TarBuilder().link("d", "x").finish()));
  EXPECT_EQ(base::sys::list_folder(to_)->size(), 1U);
}

TEST_F(FolderCopy, entries_that_would_leave_the_folder_are_refused) {
  ASSERT_TRUE(base::sys::replace_file(base_ + "/secret", "secret", 0644));
  ASSERT_EQ(::mkdir((base_ + "/outside").c_str(), 0755), 0);
  const std::string out = base_ + "/outside";
  const std::vector<std::string> archives = {
      wire::TarBuilder().file("../escaped", "x").finish(),
      wire::TarBuilder().file("a/../../escaped", "x").finish(),
      wire::TarBuilder().file(base_ + "/escaped", "x").finish(),
      wire::TarBuilder().folder("../escaped").finish(),
      wire::TarBuilder().link("l", out).file("l/escaped", "x").finish(),
      wire::TarBuilder().link("l", "../outside").folder("l/escaped").finish(),
      wire::TarBuilder().link("l", out).link("l/escaped", "x").finish(),
      wire::TarBuilder().link("l", out).file("f", "x").hardlink("l/escaped", "f").finish(),
      wire::TarBuilder().link("a", "..").link("b", "a/outside").file("b/escaped", "x").finish(),
      wire::TarBuilder().hardlink("h", "../secret").finish(),
      wire::TarBuilder().hardlink("h", base_ + "/secret").finish(),
      wire::TarBuilder().link("l", base_).hardlink("h", "l/secret").finish(),
      wire::TarBuilder().file("", "x").finish(),
      wire::TarBuilder().file(".", "x").finish(),
      wire::TarBuilder().link("./", "/").finish(),
      wire::TarBuilder().hardlink("h", ".").finish(),
      wire::TarBuilder()
          .add({.name = "short", .data = "x", .pax = {{"path", "../escaped"}}})
          .finish(),
      wire::TarBuilder().link("l", "").finish()};
  for (size_t i = 0; i < archives.size(); ++i) {
    (void)base::sys::remove_tree(to_);
    EXPECT_FALSE(lay_out(archives[i])) << i;
    EXPECT_NE(::access((base_ + "/escaped").c_str(), F_OK), 0) << i;
    EXPECT_TRUE(base::sys::list_folder(out)->empty()) << i;
    struct stat status{};
    ASSERT_EQ(::stat((base_ + "/secret").c_str(), &status), 0);
    EXPECT_EQ(status.st_nlink, 1U) << i;
  }
}

TEST_F(FolderCopy, a_link_that_was_there_is_replaced_and_not_followed) {
  ASSERT_TRUE(base::sys::replace_file(base_ + "/victim", "untouched", 0644));
  ASSERT_EQ(::mkdir(to_.c_str(), 0755), 0);
  ASSERT_EQ(::symlink("../victim", (to_ + "/name").c_str()), 0);
  ASSERT_TRUE(lay_out(wire::TarBuilder().file("name", "new").finish()));
  EXPECT_EQ(base::sys::read_file(base_ + "/victim", kBytesMax), "untouched");
  EXPECT_EQ(base::sys::read_file(to_ + "/name", kBytesMax), "new");
  // Its own link first, then a file of the same name.
  ASSERT_TRUE(
      lay_out(wire::TarBuilder().link("again", base_ + "/victim").file("again", "new").finish()));
  EXPECT_EQ(base::sys::read_file(base_ + "/victim", kBytesMax), "untouched");
}

TEST_F(FolderCopy, no_setuid_no_devices_no_pipes) {
  ASSERT_TRUE(lay_out(wire::TarBuilder()
                          .add({.name = "suid", .data = "x", .mode = 06755, .uid = 0})
                          .folder("sticky", 07777)
                          .add({.name = "device", .type = '3'})
                          .add({.name = "pipe", .type = '6'})
                          .finish()));
  EXPECT_EQ(look("suid").st_mode & 07777U, 0755U);
  EXPECT_EQ(look("sticky").st_mode & 07777U, 0755U);
  EXPECT_EQ(left_out_, 2);
  EXPECT_EQ(base::sys::list_folder(to_)->size(), 2U);
}

TEST_F(FolderCopy, a_damaged_archive_is_an_error_and_leaves_no_half_file) {
  const std::string tar = wire::TarBuilder().file("f", std::string(100'000, 'x')).finish();
  const auto cut = lay_out(tar.substr(0, 50'000));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, base::ErrorCode::archive_invalid);
  EXPECT_TRUE(base::sys::list_folder(to_)->empty());
  EXPECT_FALSE(lay_out(std::string(100'000, 'z')));
}

TEST(CleanEntryPath, takes_names_apart) {
  EXPECT_EQ(clean_entry_path("./a//b/./c/"), "a/b/c");
  EXPECT_EQ(clean_entry_path("./"), "");
  EXPECT_EQ(clean_entry_path("..."), "...");
  for (const std::string_view bad : {"", "/a", "..", "a/..", "a/../b"}) {
    EXPECT_FALSE(clean_entry_path(bad)) << bad;
  }
  EXPECT_FALSE(clean_entry_path(std::string(256, 'n')));
}

}  // namespace
}  // namespace cli
