#include "agent/sftp_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/sys.h"

namespace agent::sftp {
namespace {

constexpr uint32_t kRead = 0x1;
constexpr uint32_t kWrite = 0x2;
constexpr uint32_t kCreate = 0x8;

// A conversation without I/O, in a fresh folder.
class SftpServer : public ::testing::Test {
 protected:
  SftpServer() {
    char name[] = "/tmp/sftp_server_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    EXPECT_TRUE(server_.take(packet(Type::init, [](PacketWriter&) {}, 3)));
    version_ = std::exchange(server_.answers(), {});
  }
  ~SftpServer() override { std::filesystem::remove_all(folder_); }

  template <typename Fields>
  static std::string packet(Type type, Fields fields, uint32_t id = 1) {
    std::string out;
    PacketWriter writer(out);
    writer.begin(type).number32(id);
    fields(writer);
    writer.finish();
    return out.substr(kLengthBytes);
  }
  // The answer without length, type and id.
  template <typename Fields>
  std::string ask(Type type, Type answer, Fields fields) {
    EXPECT_TRUE(server_.take(packet(type, fields)));
    const std::string all = std::exchange(server_.answers(), {});
    PacketReader reader(all);
    EXPECT_EQ(reader.number32(), all.size() - kLengthBytes) << "exactly one answer";
    EXPECT_EQ(reader.number8(), static_cast<uint8_t>(answer));
    EXPECT_EQ(reader.number32(), 1U);
    return all.substr(kLengthBytes + 5);
  }
  template <typename Fields>
  Status status(Type type, Fields fields) {
    return static_cast<Status>(PacketReader(ask(type, Type::status, fields)).number32());
  }
  std::string open(const std::string& path, uint32_t flags) {
    const std::string answer = ask(Type::open, Type::handle, [&](PacketWriter& out) {
      out.text(path).number32(flags).attributes({});
    });
    return std::string(PacketReader(answer).text());
  }
  [[nodiscard]] std::string path(std::string_view name) const {
    return base::cat(folder_, "/", name);
  }

  std::string folder_;
  Server server_{-1, -1};
  std::string version_;
};

TEST_F(SftpServer, names_its_version_and_extensions) {
  EXPECT_NE(version_.find("posix-rename@openssh.com"), std::string::npos);
  EXPECT_NE(version_.find("copy-data"), std::string::npos);
  EXPECT_FALSE(server_.take(packet(Type::init, [](PacketWriter&) {}))) << "not twice";
}

TEST_F(SftpServer, says_nothing_to_one_that_does_not_greet) {
  Server fresh(-1, -1);
  EXPECT_FALSE(fresh.take(packet(Type::stat, [](PacketWriter& out) { out.text("/"); })));
}

TEST_F(SftpServer, writes_and_reads_at_offsets) {
  const std::string handle = open(path("f"), kRead | kWrite | kCreate);
  EXPECT_EQ(status(Type::write, [&](auto& out) { out.text(handle).number64(3).text("abc"); }),
            Status::ok);
  const std::string data = ask(Type::read, Type::data, [&](PacketWriter& out) {
    out.text(handle).number64(2).number32(UINT32_MAX);
  });
  EXPECT_EQ(PacketReader(data).text(), std::string_view("\0abc", 4));
  EXPECT_EQ(status(Type::read, [&](auto& out) { out.text(handle).number64(6).number32(1); }),
            Status::end_of_file);
  EXPECT_EQ(
      status(Type::write, [&](auto& out) { out.text(handle).number64(UINT64_MAX).text("x"); }),
      Status::bad_message);
  EXPECT_EQ(status(Type::close, [&](auto& out) { out.text(handle); }), Status::ok);
  EXPECT_NE(status(Type::close, [&](auto& out) { out.text(handle); }), Status::ok);
}

TEST_F(SftpServer, lists_a_folder_once) {
  for (int i = 0; i < 250; ++i) {
    ASSERT_TRUE(base::sys::replace_file(path(base::cat("file-", i)), "x", 0640));
  }
  const std::string opened =
      ask(Type::opendir, Type::handle, [&](PacketWriter& out) { out.text(folder_); });
  const std::string handle(PacketReader(opened).text());
  uint32_t seen = 0;
  while (seen < 252) {
    const std::string names =
        ask(Type::readdir, Type::name, [&](PacketWriter& out) { out.text(handle); });
    PacketReader reader(names);
    const uint32_t count = reader.number32();
    for (uint32_t i = 0; i < count; ++i) {
      const std::string name(reader.text());
      EXPECT_TRUE(std::string(reader.text()).ends_with(" " + name));
      reader.attributes();
    }
    ASSERT_TRUE(reader.ok());
    seen += count;
  }
  EXPECT_EQ(seen, 252U);
  EXPECT_EQ(status(Type::readdir, [&](auto& out) { out.text(handle); }), Status::end_of_file);
}

TEST_F(SftpServer, renames_over_nothing_unless_asked_to) {
  ASSERT_TRUE(base::sys::replace_file(path("a"), "a", 0644));
  ASSERT_TRUE(base::sys::replace_file(path("b"), "b", 0644));
  const auto both = [&](PacketWriter& out) { out.text(path("a")).text(path("b")); };
  EXPECT_EQ(status(Type::rename, both), Status::failure);
  EXPECT_EQ(status(Type::extended,
                   [&](PacketWriter& out) {
                     out.text("posix-rename@openssh.com").text(path("a")).text(path("b"));
                   }),
            Status::ok);
  EXPECT_EQ(base::sys::read_file(path("b"), 10).value(), "a");
}

TEST_F(SftpServer, sets_attributes_of_files_and_of_links_themselves) {
  ASSERT_TRUE(base::sys::replace_file(path("f"), "12345", 0644));
  ASSERT_EQ(::symlink("f", path("link").c_str()), 0);
  const Attributes wanted{.flags = Attributes::kSize | Attributes::kMode | Attributes::kTimes,
                          .size = 2,
                          .mode = 0100600,
                          .accessed_at = 5,
                          .modified_at = 6};
  EXPECT_EQ(status(Type::setstat, [&](auto& out) { out.text(path("link")).attributes(wanted); }),
            Status::ok);
  struct stat file{};
  ASSERT_EQ(::stat(path("f").c_str(), &file), 0);
  EXPECT_EQ(file.st_size, 2);
  EXPECT_EQ(file.st_mode & 07777, 0600U);
  EXPECT_EQ(file.st_mtime, 6);
  const Attributes times{.flags = Attributes::kTimes, .accessed_at = 7, .modified_at = 8};
  EXPECT_EQ(status(Type::extended,
                   [&](auto& out) {
                     out.text("lsetstat@openssh.com").text(path("link")).attributes(times);
                   }),
            Status::ok);
  ASSERT_EQ(::lstat(path("link").c_str(), &file), 0);
  EXPECT_EQ(file.st_mtime, 8);
}

TEST_F(SftpServer, resolves_paths_whose_last_part_is_not_there) {
  const auto resolved = [&](const std::string& asked) {
    const std::string answer =
        ask(Type::realpath, Type::name, [&](PacketWriter& out) { out.text(asked); });
    PacketReader reader(answer);
    reader.number32();
    return std::string(reader.text());
  };
  EXPECT_EQ(resolved(path("none")), path("none"));
  EXPECT_EQ(resolved(path("./none/")), path("none"));
  EXPECT_EQ(resolved("/"), "/");
  EXPECT_EQ(status(Type::realpath, [&](auto& out) { out.text(path("none/none")); }),
            Status::no_such_file);
}

TEST_F(SftpServer, copies_a_range_between_files) {
  ASSERT_TRUE(base::sys::replace_file(path("from"), "0123456789", 0644));
  const std::string from = open(path("from"), kRead);
  const std::string to = open(path("to"), kWrite | kCreate);
  const auto copy = [&](const std::string& target, uint64_t size) {
    return status(Type::extended, [&](PacketWriter& out) {
      out.text("copy-data").text(from).number64(2).number64(size).text(target).number64(1);
    });
  };
  EXPECT_EQ(copy(to, 3), Status::ok);
  EXPECT_EQ(base::sys::read_file(path("to"), 100).value(), std::string("\0"
                                                                       "234",
                                                                       4));
  EXPECT_EQ(copy(to, 0), Status::ok);
  EXPECT_EQ(base::sys::read_file(path("to"), 100).value(), std::string("\0"
                                                                       "23456789",
                                                                       9));
  EXPECT_EQ(copy(from, 1), Status::failure);
  const std::string same = open(path("from"), kWrite);
  EXPECT_EQ(copy(same, 1), Status::failure);
  ASSERT_EQ(::link(path("from").c_str(), path("linked").c_str()), 0);
  EXPECT_EQ(copy(open(path("linked"), kWrite), 0), Status::failure);
}

TEST_F(SftpServer, refuses_what_it_does_not_know_and_goes_on) {
  EXPECT_EQ(status(static_cast<Type>(99), [](PacketWriter&) {}), Status::unsupported);
  EXPECT_EQ(status(Type::extended, [](auto& out) { out.text("nosuch@example.com"); }),
            Status::unsupported);
  EXPECT_EQ(status(Type::open, [](auto& out) { out.text("x"); }), Status::bad_message);
  EXPECT_EQ(status(Type::read, [](auto& out) { out.text("????").number64(0).number32(1); }),
            Status::failure);
  EXPECT_EQ(status(Type::remove, [&](auto& out) { out.text(path("none")); }), Status::no_such_file);
}

TEST_F(SftpServer, holds_a_bounded_number_of_handles) {
  size_t opened = 0;
  for (; opened < 2 * Handles::kFoldersMax; ++opened) {
    ASSERT_TRUE(server_.take(packet(Type::opendir, [&](PacketWriter& out) { out.text(folder_); })));
    const std::string answer = std::exchange(server_.answers(), {});
    if (answer[kLengthBytes] != static_cast<char>(Type::handle)) {
      break;
    }
  }
  EXPECT_EQ(opened, Handles::kFoldersMax);
}

TEST(SftpConversation, breaks_off_at_a_packet_that_is_too_long_and_ends_with_its_input) {
  const auto serve = [](std::string_view input) {
    auto to = base::sys::make_pipe();
    auto from = base::sys::make_pipe();
    EXPECT_TRUE(base::sys::write_all(to->second.get(), input));
    to->second.reset();
    Server server(to->first.get(), from->second.get());
    return server.serve();
  };
  const std::string greeting("\0\0\0\5\1\0\0\0\3", 9);
  EXPECT_EQ(serve(greeting), 0);
  EXPECT_EQ(serve(greeting + std::string("\0\4\0\1", 4)), 1);
  EXPECT_EQ(serve(greeting + std::string("\0\0\0\0", 4)), 1);
  EXPECT_EQ(serve(greeting.substr(0, 7)), 1);
}

}  // namespace
}  // namespace agent::sftp
