#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/sys.h"
#include "wire/tar_reader.h"
#include "wire/tar_testing.h"
#include "wire/tar_writer.h"

namespace wire::tar {
namespace {

namespace sys = base::sys;

struct Member {
  Entry entry;
  std::string content;  // as the file is read
};

struct Archive {
  std::vector<Member> members;
  base::ErrorCode failure{};
  bool failed = false;
  std::string message;

  [[nodiscard]] const Member* find(std::string_view path) const {
    const auto found = std::ranges::find_if(
        members, [&](const Member& member) { return member.entry.path == path; });
    return found == members.end() ? nullptr : &*found;
  }
};

// All of an archive, given to the reader in pieces.
Archive read(std::string_view bytes, size_t piece = SIZE_MAX) {
  Archive out;
  Reader reader;
  const auto fail = [&](const base::Error& error) {
    out.failed = true;
    out.failure = error.code;
    out.message = error.message;
    return out;
  };
  while (!bytes.empty()) {
    std::string_view input = bytes.substr(0, std::min(piece, bytes.size()));
    bytes.remove_prefix(input.size());
    for (;;) {
      const auto step = reader.next(input);
      if (!step) {
        return fail(step.error());
      }
      input.remove_prefix(step->consumed);
      if (step->found == Reader::Found::more_input) {
        EXPECT_TRUE(input.empty());
        break;
      }
      if (step->found == Reader::Found::entry) {
        out.members.push_back({.entry = reader.entry(), .content = {}});
        out.members.back().content.resize(
            reader.entry().type == EntryType::file ? reader.entry().size : 0);
      }
      if (step->found == Reader::Found::data) {
        out.members.back().content.replace(step->offset, step->data.size(), step->data);
      }
    }
  }
  const auto end = reader.end_of_input();
  return end ? out : fail(end.error());
}

std::string write(const std::vector<Member>& members) {
  std::string out;
  for (const Member& member : members) {
    append_head(out, member.entry);
    if (member.entry.is_sparse) {
      for (const Part& part : member.entry.parts) {
        out += member.content.substr(part.offset, part.size);
      }
    } else {
      out += member.content;
    }
    out.append(padding(data_size(member.entry)), '\0');
  }
  return out.append(kEndBytes, '\0');
}

Member file(std::string path, std::string content) {
  return {.entry = {.path = std::move(path), .mode = 0644, .size = content.size()},
          .content = std::move(content)};
}

// A fresh folder, and programs run in it.
struct Tools : ::testing::Test {
  Tools() {
    std::string name = "/tmp/tar_test.XXXXXX";
    folder = ::mkdtemp(name.data());
  }
  ~Tools() override { std::filesystem::remove_all(folder); }
  // Standard output of a shell command in the folder; the test fails if the command does.
  std::string run(const std::string& command) const {
    FILE* pipe = ::popen(("cd " + folder + " && " + command).c_str(), "r");
    std::string out;
    std::array<char, 65536> piece;
    for (size_t count = 1; count > 0;) {
      count = ::fread(piece.data(), 1, piece.size(), pipe);
      out.append(piece.data(), count);
    }
    EXPECT_EQ(::pclose(pipe), 0) << command;
    return out;
  }
  static bool has_bsdtar() { return ::system("command -v bsdtar >/dev/null") == 0; }
  // What a tar program has to tell of: long names, links, an odd name, times, a hole.
  void make_tree() const {
    run("mkdir -p tree/sub/empty tree/$(printf 'd%.0s' $(seq 120))/$(printf 'e%.0s' $(seq 120)); "
        "echo hello > tree/sub/file; chmod 4751 tree/sub/file; ln tree/sub/file tree/hard; "
        "ln -s $(printf 's%.0s' $(seq 150)) tree/soft; echo x > tree/$(printf 'n%.0s' $(seq 200)); "
        "echo b > \"tree/$(printf '\\377\\376A')\"; truncate -s 3M tree/hole; "
        "printf mid | dd of=tree/hole bs=1 seek=2000000 conv=notrunc status=none; "
        "touch -d @1700000000.123456789 tree/sub/file; touch -d 1960-01-02 tree/old");
  }
  void expect_tree(const Archive& archive, bool has_fractions, bool keeps_holes) const {
    EXPECT_FALSE(archive.failed) << archive.message;
    const auto at = [&](const std::string& path) -> const Member& {
      const Member* member = archive.find(path);
      EXPECT_NE(member, nullptr) << path;
      static const Member kNone;
      return member == nullptr ? kNone : *member;
    };
    // Which of two names comes first is up to the file system.
    const bool file_first = at("tree/sub/file").entry.type == EntryType::file;
    const Member& whole = at(file_first ? "tree/sub/file" : "tree/hard");
    const Member& link = at(file_first ? "tree/hard" : "tree/sub/file");
    EXPECT_EQ(whole.content, "hello\n");
    EXPECT_EQ(whole.entry.mode, 04751U);
    EXPECT_EQ(whole.entry.modified.seconds, 1'700'000'000);
    // Python's times are floating-point numbers.
    EXPECT_NEAR(whole.entry.modified.nanoseconds, has_fractions ? 123'456'789 : 0, 1'000);
    EXPECT_EQ(link.entry.type, EntryType::hardlink);
    EXPECT_EQ(link.entry.target, whole.entry.path);
    EXPECT_EQ(at("tree/soft").entry.target, std::string(150, 's'));
    EXPECT_EQ(at("tree/" + std::string(200, 'n')).content, "x\n");
    EXPECT_EQ(at("tree/\xff\xfe"
                 "A")
                  .content,
              "b\n");
    EXPECT_LT(at("tree/old").entry.modified.seconds, 0);
    const Member& hole = at("tree/hole");
    EXPECT_EQ(hole.entry.is_sparse, keeps_holes);
    EXPECT_EQ(hole.content.size(), 3U * 1024 * 1024);
    EXPECT_EQ(hole.content.substr(2'000'000, 3), "mid");
    const std::string deep = "tree/" + std::string(120, 'd') + "/" + std::string(120, 'e');
    EXPECT_TRUE(archive.find(deep + "/") != nullptr || archive.find(deep) != nullptr);
  }
  std::string folder;
};

TEST_F(Tools, archives_of_gnu_tar_are_read) {
  make_tree();
  for (const std::string& sparse : {"0.0", "0.1", "1.0"}) {
    const std::string bytes = run(
        "tar --format=pax --pax-option=delete=atime -S --sparse-version=" + sparse + " -cf - tree");
    expect_tree(read(bytes), true, true);
  }
  expect_tree(read(run("tar --format=gnu -S -cf - tree")), false, true);
  expect_tree(read(run("tar --format=gnu -cf - tree")), false, false);
}

TEST_F(Tools, archives_of_bsdtar_are_read) {
  if (!has_bsdtar()) {
    GTEST_SKIP() << "no bsdtar";
  }
  make_tree();
  expect_tree(read(run("LC_ALL=C.UTF-8 bsdtar --format pax -cf - tree 2>/dev/null")), true, true);
}

TEST_F(Tools, archives_of_python_are_read) {
  make_tree();
  const std::string make =
      "python3 -c \"import tarfile,sys; t=tarfile.open(fileobj=sys.stdout.buffer, mode='w|', "
      "format=tarfile.";
  expect_tree(read(run(make + "PAX_FORMAT); t.add('tree'); t.close()\"")), true, false);
  expect_tree(read(run(make + "GNU_FORMAT); t.add('tree'); t.close()\"")), false, false);
}

TEST_F(Tools, a_map_of_many_parts_is_read) {
  run("python3 -c \"f=open('many','wb')\nfor i in range(300): f.seek(i*65536); "
      "f.write(b'%05d'%i)\"");
  for (const std::string& format :
       {"pax --sparse-version=1.0", "pax --sparse-version=0.1", "gnu"}) {
    const Archive archive = read(run("tar --format=" + format + " -S -cf - many"));
    ASSERT_EQ(archive.members.size(), 1U) << format << archive.message;
    EXPECT_GT(archive.members[0].entry.parts.size(), 100U);
    EXPECT_EQ(archive.members[0].content.substr(299UL * 65536, 5), "00299");
  }
}

std::vector<Member> hard_members() {
  Member root{.entry = {.path = "./", .type = EntryType::folder, .mode = 0755}, .content = {}};
  Member plain = file("./plain", "content");
  plain.entry.modified = {.seconds = 1'700'000'000, .nanoseconds = 120'000'000};
  Member long_name = file("./" + std::string(200, 'l') + "/" + std::string(150, 'm'), "long");
  Member split = file("./" + std::string(90, 'p') + "/" + std::string(90, 'q'), "split");
  Member odd = file("./" + std::string(150, 'o') + "\xff\xfe", "odd");
  Member early = file("./early", "");
  early.entry.modified = {.seconds = -2, .nanoseconds = 500'000'000};
  Member owner = file("./owner", "o");
  owner.entry.uid = 4'000'000'000;
  owner.entry.gid = 65'534;
  Member tagged = file("./tagged", "t");
  tagged.entry.attributes = {{"user.note", std::string("a\0b=\n", 5)}};
  Member link{.entry = {.path = "./link",
                        .type = EntryType::symlink,
                        .target = std::string(300, 't'),
                        .mode = 0777},
              .content = {}};
  Member hard{
      .entry = {.path = "./hard", .type = EntryType::hardlink, .target = "./plain", .mode = 0644},
      .content = {}};
  Member hole = file("./hole", std::string(100'000, '\0'));
  hole.content.replace(40'000, 4, "here");
  hole.entry.is_sparse = true;
  hole.entry.parts = {{.offset = 40'000, .size = 4}, {.offset = 100'000, .size = 0}};
  return {root, plain, long_name, split, odd, early, owner, tagged, link, hard, hole};
}

TEST(TarWriter, what_is_written_is_read_again) {
  const auto members = hard_members();
  const std::string bytes = write(members);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{511}, SIZE_MAX}) {
    const Archive archive = read(bytes, piece);
    ASSERT_FALSE(archive.failed) << archive.message;
    ASSERT_EQ(archive.members.size(), members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      const Entry& wrote = members[i].entry;
      const Entry& got = archive.members[i].entry;
      EXPECT_EQ(got.path, wrote.path);
      EXPECT_EQ(got.type, wrote.type) << wrote.path;
      EXPECT_EQ(got.target, wrote.target);
      EXPECT_EQ(got.mode, wrote.mode);
      EXPECT_EQ(got.uid, wrote.uid);
      EXPECT_EQ(got.gid, wrote.gid);
      EXPECT_EQ(got.modified, wrote.modified) << wrote.path;
      EXPECT_EQ(got.attributes, wrote.attributes);
      EXPECT_EQ(got.parts, wrote.parts);
      EXPECT_EQ(archive.members[i].content, members[i].content);
    }
  }
}

TEST_F(Tools, tar_programs_read_what_is_written) {
  const std::string bytes = write(hard_members());
  ASSERT_TRUE(sys::replace_file(folder + "/a.tar", bytes, 0644));
  std::vector<std::string> programs = {"tar --no-same-owner"};
  if (has_bsdtar()) {
    programs.emplace_back("bsdtar --no-same-owner");
  }
  for (const std::string& program : programs) {
    run("rm -rf out && mkdir out && " + program + " -C out -xf a.tar");
    EXPECT_EQ(run("cat out/plain out/hard"), "contentcontent") << program;
    EXPECT_EQ(run("stat -c %h out/plain"), "2\n");
    EXPECT_EQ(run("stat -c %.2Y out/plain"), "1700000000.12\n");
    EXPECT_EQ(run("stat -c %s out/hole && tail -c +40001 out/hole | head -c 4"), "100000\nhere");
    EXPECT_EQ(run("readlink out/link | wc -c"), "301\n");
    EXPECT_EQ(run("cat out/l*/m* out/o*"),
              "longodd"
              "o");
  }
  EXPECT_EQ(run("python3 -c \"import tarfile; t=tarfile.open('a.tar'); "
                "print(len(t.getmembers()), t.extractfile('./plain').read(), "
                "t.getmember('./owner').uid, t.extractfile('./hole').read()[40000:40004], "
                "t.getmember('./early').mtime)\""),
            "11 b'content' 4000000000 b'here' -1.5\n");
}

TEST(TarReader, numbers_in_base_256_are_read) {
  std::string bytes = TarBuilder().file("five", "12345").finish();
  bytes.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x05", 12));
  bytes.replace(136, 12, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe");  // -2 s
  bytes.replace(148, 8, 8, ' ');
  int sum = 0;
  for (const char c : bytes.substr(0, 512)) {
    sum += static_cast<unsigned char>(c);
  }
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%06o", sum);
  bytes.replace(148, 7, digits.data(), 7);
  const Archive archive = read(bytes);
  ASSERT_EQ(archive.members.size(), 1U) << archive.message;
  EXPECT_EQ(archive.members[0].content, "12345");
  EXPECT_EQ(archive.members[0].entry.modified.seconds, -2);
  bytes[124] = '\x80';
  bytes.replace(125, 4, "\x01\x01\x01\x01");
  EXPECT_TRUE(read(bytes).failed);
}

TEST(TarReader, a_record_overrides_the_head_and_an_empty_one_takes_it_back) {
  TarBuilder builder;
  builder.add({.name = "short",
               .data = "x",
               .pax = {{"path", "pax/name"},
                       {"uid", "77"},
                       {"mtime", "5.5"},
                       {"SCHILY.xattr.user.a", "b"},
                       {"comment", "none"}}});
  builder.add({.name = "plain", .data = "y", .uid = 3, .pax = {{"path", ""}, {"uid", ""}}});
  const Archive archive = read(builder.finish());
  ASSERT_EQ(archive.members.size(), 2U) << archive.message;
  EXPECT_EQ(archive.members[0].entry.path, "pax/name");
  EXPECT_EQ(archive.members[0].entry.uid, 77);
  EXPECT_EQ(archive.members[0].entry.modified, (Time{.seconds = 5, .nanoseconds = 500'000'000}));
  EXPECT_EQ(archive.members[0].entry.attributes.at(0).second, "b");
  EXPECT_EQ(archive.members[1].entry.path, "plain");
  EXPECT_EQ(archive.members[1].entry.uid, 3);
}

TEST(TarReader, a_broken_archive_is_told_wherever_it_is_cut) {
  const std::string bytes = write(hard_members());
  for (size_t size = 0; size + kEndBytes < bytes.size(); size += 73) {
    const Archive cut = read(bytes.substr(0, size));
    EXPECT_TRUE(cut.failed) << size;
    EXPECT_EQ(cut.failure, base::ErrorCode::archive_invalid);
  }
}

TEST(TarReader, what_two_readers_could_take_differently_is_refused) {
  const std::string whole = TarBuilder().file("a", "content").finish();
  std::string checksum = whole;
  checksum[0] = 'b';
  EXPECT_TRUE(read(checksum).failed);
  EXPECT_TRUE(read(whole + TarBuilder().file("second", "archive").finish()).failed);
  EXPECT_TRUE(read("this is no archive at all" + std::string(2000, ' ')).failed);
  EXPECT_TRUE(read("").failed);
  EXPECT_TRUE(read(TarBuilder().add({.name = "odd", .type = 'Q'}).finish()).failed);
  EXPECT_TRUE(read(TarBuilder().add({.name = "volume", .type = 'M'}).finish()).failed);
  struct Case {
    std::string key;
    std::string value;
  };
  for (const auto& [key, value] :
       {Case{"size", "-5"}, Case{"size", "99999999999999999999"}, Case{"uid", "x"},
        Case{"mtime", "soon"}, Case{"path", std::string("a\0b", 3)}, Case{"GNU.sparse.major", "2"},
        Case{"GNU.sparse.map", "1"}, Case{"GNU.sparse.map", "0,1"}, Case{"SCHILY.xattr.", "x"}}) {
    EXPECT_TRUE(
        read(TarBuilder().add({.name = "f", .data = "d", .pax = {{key, value}}}).finish()).failed)
        << key << "=" << value;
  }
}

TEST(TarReader, parts_that_overlap_or_do_not_fit_are_refused) {
  const auto sparse = [](const std::string& map, const std::string& size, const std::string& data) {
    return read(TarBuilder()
                    .add({.name = "f",
                          .data = data,
                          .pax = {{"GNU.sparse.map", map}, {"GNU.sparse.size", size}}})
                    .finish());
  };
  EXPECT_FALSE(sparse("2,1,5,1", "8", "ab").failed);
  EXPECT_EQ(sparse("2,1,5,1", "8", "ab").members.at(0).content, std::string("\0\0a\0\0b\0\0", 8));
  for (const char* map : {"2,1,2,1", "5,1,2,1", "2,1,8,1", "2,1", "2,1,5,2",
                          "0,18446744073709551615,5,3", "18446744073709551615,2"}) {
    EXPECT_TRUE(sparse(map, "8", "ab").failed) << map;
  }
  EXPECT_TRUE(sparse("0,2", "18446744073709551615", "ab").failed);
}

TEST(TarReader, an_extended_header_without_end_is_refused_before_it_is_held) {
  std::string bytes = TarBuilder().add({.name = "f", .type = 'x', .data = "x"}).finish();
  // A size of eight gigabytes less one, with the checksum that it needs.
  const auto with_size = [&](std::string_view size) {
    std::string head = bytes.substr(0, 512);
    head.replace(124, 11, size);
    head.replace(148, 8, 8, ' ');
    int sum = 0;
    for (const char c : head) {
      sum += static_cast<unsigned char>(c);
    }
    std::array<char, 8> digits{};
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    return head.replace(148, 7, digits.data(), 7);
  };
  EXPECT_TRUE(read(with_size("77777777777")).failed);
}

}  // namespace
}  // namespace wire::tar
