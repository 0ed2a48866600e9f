#include "image/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/sys.h"
#include "image/digest.h"
#include "image/folder_copy.h"
#include "wire/tar_testing.h"

namespace image {
namespace {

namespace sys = base::sys;
using wire::TarBuilder;

// A folder beside which nothing may appear: the layer is OUTER/layer.
class LayerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "owners and whiteouts need root";
    }
    use_byte_names();
    char name[] = "/tmp/layer-test-XXXXXX";
    outer_ = ::mkdtemp(static_cast<char*>(name));
    layer_ = outer_ + "/layer";
    ASSERT_TRUE(sys::make_folder(layer_, 0755));
  }
  void TearDown() override {
    if (!outer_.empty()) {
      // Whatever the archive tried, nothing came out beside its folder.
      const auto beside = sys::list_folder(outer_);
      EXPECT_TRUE(beside && beside->size() == 1);
      EXPECT_TRUE(sys::remove_tree(outer_));
    }
  }

  Result<ArchiveDigests> unpack(const std::string& bytes) {
    const auto memory = sys::make_sealed_memory("tar", bytes);
    auto root = sys::open(layer_, O_RDONLY | O_DIRECTORY);
    LayerWriter writer(std::move(*root), budget_);
    auto digests = unpack_archive(memory->get(), budget_, writer);
    opaque_ = writer.opaque_folders();
    devices_ = writer.devices_dropped();
    return digests;
  }
  // The reason of the failure, "" for none.
  std::string refused(const TarBuilder& tar) {
    const auto digests = unpack(tar.finish());
    return digests ? "" : reason_of(digests.error());
  }
  std::string read(const std::string& path) const {
    const auto text = sys::read_file(layer_ + "/" + path, 1 << 20);
    return text ? *text : "absent";
  }
  struct stat info(const std::string& path) const {
    struct stat out{};
    EXPECT_EQ(::lstat((layer_ + "/" + path).c_str(), &out), 0) << path;
    return out;
  }
  bool exists(const std::string& path) const {
    struct stat out{};
    return ::lstat((layer_ + "/" + path).c_str(), &out) == 0;
  }
  bool is_whiteout(const std::string& path) const {
    const auto out = info(path);
    return S_ISCHR(out.st_mode) && out.st_rdev == 0;
  }

  std::string outer_;
  std::string layer_;
  LayerLimits budget_;
  std::vector<std::string> opaque_;
  int64_t devices_ = 0;
};

std::string compress(const std::string& bytes, const char* program) {
  const std::string path = std::string("/tmp/compress-") + std::to_string(::getpid());
  EXPECT_TRUE(sys::replace_file(path, bytes, 0600));
  std::string out;
  FILE* pipe = ::popen((std::string(program) + " -q -c < " + path).c_str(), "r");
  char buffer[4096];
  for (size_t count = 0; (count = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    out.append(buffer, count);
  }
  EXPECT_EQ(::pclose(pipe), 0);
  ::unlink(path.c_str());
  return out;
}

TEST_F(LayerTest, keeps_owner_mode_time_and_links) {
  TarBuilder tar;
  tar.folder("t/", 0700)
      .add({.name = "t/run", .data = "#!", .mode = 04755, .uid = 12345, .gid = 54321});
  tar.link("t/soft", "no/such").hardlink("t/hard", "t/run").link("t/abs", "/etc/hostname");
  ASSERT_TRUE(unpack(tar.finish()));
  EXPECT_EQ(info("t").st_mode & 07777, 0700U);
  EXPECT_EQ(info("t").st_mtime, 1'700'000'000);
  EXPECT_EQ(info("t/run").st_mode & 07777, 04755U);
  EXPECT_EQ(info("t/run").st_uid, 12345U);
  EXPECT_EQ(info("t/run").st_gid, 54321U);
  EXPECT_EQ(info("t/hard").st_ino, info("t/run").st_ino);
  EXPECT_TRUE(S_ISLNK(info("t/soft").st_mode));
}

TEST_F(LayerTest, refuses_what_leaves_the_folder) {
  EXPECT_EQ(refused(TarBuilder().file("../escape", "x")), kInvalid);
  EXPECT_EQ(refused(TarBuilder().file("a/../../escape", "x")), kInvalid);
  EXPECT_EQ(refused(TarBuilder().hardlink("h", "/etc/hostname")), kInvalid);
  EXPECT_EQ(refused(TarBuilder().hardlink("h", "../../etc/hostname")), kInvalid);
  EXPECT_EQ(refused(TarBuilder().file(".wh...", "")), kInvalid);
  EXPECT_EQ(refused(TarBuilder().file("a/.wh.", "")), kInvalid);
}

TEST_F(LayerTest, takes_an_absolute_name_as_beneath_the_root) {
  EXPECT_EQ(refused(TarBuilder().file("/abs", "x")), "");
  EXPECT_EQ(read("abs"), "x");
}

TEST_F(LayerTest, resolves_links_in_parents_inside_the_layer) {
  TarBuilder tar;
  tar.link("d", "/etc").file("d/inside", "x").link("up", "../../..").file("up/top", "y");
  tar.link("p", ".").link("p/q", "../..").file("p/q/two", "z");
  EXPECT_EQ(refused(tar), "");
  EXPECT_EQ(read("etc/inside"), "x");
  EXPECT_EQ(read("top"), "y");
  EXPECT_EQ(read("two"), "z");
}

TEST_F(LayerTest, refuses_a_loop_of_links) {
  EXPECT_EQ(refused(TarBuilder().link("a", "b").link("b", "a").file("a/x", "x")), kInvalid);
}

TEST_F(LayerTest, the_later_entry_wins) {
  TarBuilder tar;
  tar.file("f", "1")
      .file("f", "22")
      .folder("x/")
      .file("x/f", "1")
      .link("x", "/y")
      .file("x/f2", "2");
  tar.file("was-file", "1").folder("was-file/").file("was-file/in", "3");
  EXPECT_EQ(refused(tar), "");
  EXPECT_EQ(read("f"), "22");
  EXPECT_TRUE(S_ISLNK(info("x").st_mode));
  EXPECT_EQ(read("y/f2"), "2");
  EXPECT_EQ(read("was-file/in"), "3");
}

TEST_F(LayerTest, a_link_is_replaced_and_not_written_through) {
  EXPECT_EQ(refused(TarBuilder().link("f", "/tmp/../victim").file("f", "new")), "");
  EXPECT_TRUE(S_ISREG(info("f").st_mode));
  EXPECT_FALSE(exists("victim"));
}

TEST_F(LayerTest, a_hard_link_to_itself_keeps_the_file) {
  EXPECT_EQ(refused(TarBuilder().file("f", "1").hardlink("f", "./f")), "");
  EXPECT_EQ(read("f"), "1");
}

TEST_F(LayerTest, leaves_devices_out) {
  TarBuilder tar;
  tar.add({.name = "kmsg", .type = '3'}).add({.name = "pipe", .type = '6'});
  EXPECT_EQ(refused(tar), "");
  EXPECT_FALSE(exists("kmsg"));
  EXPECT_EQ(devices_, 1);
  EXPECT_TRUE(S_ISFIFO(info("pipe").st_mode));
}

TEST_F(LayerTest, whiteouts_hide_lower_layers) {
  TarBuilder tar;
  tar.file("w/.wh.gone", "").folder("a/").file("a/new", "n").file("a/.wh..wh..opq", "");
  EXPECT_EQ(refused(tar), "");
  EXPECT_TRUE(is_whiteout("w/gone"));
  EXPECT_EQ(read("a/new"), "n");
  EXPECT_EQ(opaque_, std::vector<std::string>{"a"});
  EXPECT_FALSE(exists("a/.wh..wh..opq"));
}

TEST_F(LayerTest, an_opaque_mark_counts_whatever_its_place) {
  EXPECT_EQ(refused(TarBuilder().file("a/.wh..wh..opq", "").file("a/new", "n")), "");
  EXPECT_EQ(read("a/new"), "n");
  EXPECT_EQ(opaque_, std::vector<std::string>{"a"});
}

TEST_F(LayerTest, a_whiteout_spares_what_the_layer_itself_has) {
  TarBuilder tar;
  tar.file("a/.wh.b", "").file("a/b", "file").file("c/d", "file").file("c/.wh.d", "");
  tar.folder("e/f/").file("e/f/in", "x").file("e/.wh.f", "");
  tar.file("g/.wh.h", "").folder("g/h/").file("g/h/in", "y");
  EXPECT_EQ(refused(tar), "");
  EXPECT_EQ(read("a/b"), "file");
  EXPECT_EQ(read("c/d"), "file");
  EXPECT_EQ(read("e/f/in"), "x");
  EXPECT_EQ(read("g/h/in"), "y");
  EXPECT_EQ(opaque_, (std::vector<std::string>{"e/f", "g/h"}));
}

TEST_F(LayerTest, names_file_and_id_beyond_a_sandbox) {
  TarBuilder tar;
  tar.add({.name = "bigid", .data = "b", .pax = {{"uid", "1516583083"}}});
  const auto digests = unpack(tar.finish());
  ASSERT_FALSE(digests);
  EXPECT_EQ(reason_of(digests.error()), kInvalid);
  EXPECT_TRUE(digests.error().message.contains("bigid"));
  EXPECT_TRUE(digests.error().message.contains("1516583083"));
}

TEST_F(LayerTest, keeps_long_names_and_names_that_are_no_text) {
  const std::string deep = "d1/" + std::string(255, 'n');
  TarBuilder tar;
  tar.add({.name = "short", .data = "1", .pax = {{"path", deep}}});
  tar.add({.name = "\xff\xfe"
                   "A",
           .data = "2"});
  tar.add({.name = "x", .data = "3", .pax = {{"path", "na\xc3\xafve"}}});
  EXPECT_EQ(refused(tar), "");
  EXPECT_EQ(read(deep), "1");
  EXPECT_EQ(read("\xff\xfe"
                 "A"),
            "2");
  EXPECT_EQ(read("na\xc3\xafve"), "3");
  EXPECT_EQ(refused(TarBuilder().add({.name = "x", .pax = {{"path", std::string(300, 'n')}}})),
            kInvalid);
}

TEST_F(LayerTest, keeps_capabilities_and_user_attributes_only) {
  const std::string capability(
      "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
  TarBuilder tar;
  tar.add({.name = "cap",
           .data = "x",
           .pax = {{"SCHILY.xattr.security.capability", capability},
                   {"SCHILY.xattr.user.note", "hello"},
                   {"SCHILY.xattr.trusted.overlay.opaque", "y"},
                   {"SCHILY.xattr.user.overlay.opaque", "y"}}});
  EXPECT_EQ(refused(tar), "");
  char value[64];
  const std::string path = layer_ + "/cap";
  EXPECT_EQ(::getxattr(path.c_str(), "security.capability", value, sizeof value), 20);
  EXPECT_EQ(::getxattr(path.c_str(), "user.note", value, sizeof value), 5);
  EXPECT_LT(::getxattr(path.c_str(), "trusted.overlay.opaque", value, sizeof value), 0);
  EXPECT_LT(::getxattr(path.c_str(), "user.overlay.opaque", value, sizeof value), 0);
}

TEST_F(LayerTest, the_bytes_decide_on_compression_and_both_digests_are_of_all_of_them) {
  const std::string tar = TarBuilder().file("f", "content").finish();
  const std::string gzip = compress(tar, "gzip");
  const std::string half = tar.substr(0, 700);
  for (const std::string& bytes : {tar, gzip, compress(tar, "zstd"),
                                   compress(half, "gzip") + compress(tar.substr(700), "gzip"),
                                   compress(half, "zstd") + compress(tar.substr(700), "zstd")}) {
    const auto digests = unpack(bytes);
    ASSERT_TRUE(digests) << digests.error().message;
    EXPECT_EQ(digests->blob, sha256_of(bytes));
    EXPECT_EQ(digests->content, sha256_of(tar));
    EXPECT_EQ(read("f"), "content");
  }
}

TEST_F(LayerTest, takes_a_layer_without_entries) {
  for (const std::string& bytes :
       {std::string(1024, '\0'), compress(std::string(1024, '\0'), "gzip"), std::string()}) {
    const auto digests = unpack(bytes);
    ASSERT_TRUE(digests) << digests.error().message;
    EXPECT_EQ(digests->blob, sha256_of(bytes));
  }
}

TEST_F(LayerTest, refuses_damaged_archives) {
  const std::string tar = TarBuilder().file("f", std::string(5000, 'x')).finish();
  const auto cut = unpack(tar.substr(0, 3000));
  EXPECT_FALSE(cut);
  const std::string gzip = compress(tar, "gzip");
  EXPECT_FALSE(unpack(gzip.substr(0, gzip.size() / 2)));
  EXPECT_FALSE(unpack("this is no archive at all, but a text that is long enough"));
}

TEST_F(LayerTest, stops_at_the_limits) {
  budget_.bytes_max = 1000;
  EXPECT_EQ(refused(TarBuilder().file("f", std::string(600, 'x')).file("g", std::string(600, 'x'))),
            kInvalid);
  budget_ = {.bytes_max = 1000, .entries_max = 2};
  EXPECT_EQ(refused(TarBuilder().file("a", "").file("b", "").file("c", "")), kInvalid);
  budget_ = {.bytes_max = 1 << 20, .entries_max = 2};
  EXPECT_EQ(refused(TarBuilder().add({.name = "sparse",
                                      .pax = {{"GNU.sparse.major", "0"},
                                              {"GNU.sparse.minor", "1"},
                                              {"GNU.sparse.size", "99999999999"},
                                              {"GNU.sparse.map", "0,0"}}})),
            kInvalid);
}

TEST_F(LayerTest, a_compression_bomb_ends_at_the_limit) {
  budget_ = {.bytes_max = 1 << 20, .entries_max = 1};
  std::string bomb = TarBuilder().file("f", "x").finish();
  bomb.append(8 << 20, '\0');
  EXPECT_FALSE(unpack(compress(bomb, "gzip")));
}

TEST_F(LayerTest, copies_a_folder_and_names_it_by_its_content) {
  const std::string from = layer_ + "/from";
  ASSERT_TRUE(sys::make_folders(from + "/d", 0755));
  ASSERT_TRUE(sys::replace_file(from + "/d/f", "one", 0640));
  ASSERT_EQ(::link((from + "/d/f").c_str(), (from + "/hard").c_str()), 0);
  ASSERT_EQ(::symlink("/nowhere", (from + "/soft").c_str()), 0);
  std::string first;
  for (const char* to : {"one", "two"}) {
    const std::string path = layer_ + "/" + to;
    ASSERT_TRUE(sys::make_folder(path, 0755));
    LayerWriter writer(std::move(*sys::open(path, O_RDONLY | O_DIRECTORY)), budget_);
    const auto source = sys::open(from, O_RDONLY | O_DIRECTORY);
    const auto digest = copy_folder(source->get(), writer);
    ASSERT_TRUE(digest) << digest.error().message;
    EXPECT_EQ(read(std::string(to) + "/d/f"), "one");
    EXPECT_EQ(info(std::string(to) + "/hard").st_ino, info(std::string(to) + "/d/f").st_ino);
    EXPECT_TRUE(first.empty() || first == *digest);
    first = *digest;
  }
}

}  // namespace
}  // namespace image
