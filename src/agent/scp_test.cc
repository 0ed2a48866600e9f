#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "agent/scp_message.h"
#include "agent/scp_receive.h"
#include "agent/scp_send.h"
#include "base/sys.h"

namespace agent::scp {
namespace {

TEST(ScpMessage, reads_the_lines_of_the_protocol) {
  const auto file = parse_message("C0644 12 a b");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->mode, 0644U);
  EXPECT_EQ(file->size, 12U);
  EXPECT_EQ(file->name, "a b");
  EXPECT_EQ(parse_message("D0755 0 d")->kind, Message::Kind::folder);
  EXPECT_EQ(parse_message("E")->kind, Message::Kind::end_of_folder);
  EXPECT_EQ(parse_message("T5 0 6 0")->times.accessed_at, 6);
  EXPECT_EQ(parse_message("\1why")->kind, Message::Kind::warning);
  EXPECT_EQ(parse_message("\2why")->name, "why");
}

TEST(ScpMessage, refuses_names_that_lead_elsewhere_and_broken_lines) {
  for (const std::string_view line :
       {"C0644 1 ../x", "C0644 1 a/b", "D0755 0 ..", "D0755 0 .", "C0644 1 ", "C0644 1", "C644 1 x",
        "C0648 1 x", "C0644 -1 x", "C0644 9999999999999999999 x", "T1 0 2", "Ex", "", "X"}) {
    EXPECT_FALSE(parse_message(line)) << line;
  }
  EXPECT_FALSE(parse_message(std::string_view("C0644 1 a\0b", 11)));
}

TEST(ScpMessage, reads_its_options) {
  const auto options = parse_options({"-r", "-pt", "--", "-x"});
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->to && options->recursive && options->keep_times);
  EXPECT_EQ(options->patterns, std::vector<std::string>{"-x"});
  EXPECT_FALSE(parse_options({"-t"}));
  EXPECT_FALSE(parse_options({"x"}));
  EXPECT_FALSE(parse_options({"-t", "-f", "x"}));
  EXPECT_FALSE(parse_options({"-t", "x", "y"}));
  EXPECT_FALSE(parse_options({"-f", "-S", "x"}));
}

// Both ends in a fresh folder with from/ and to/.
class Scp : public ::testing::Test {
 protected:
  Scp() {
    char name[] = "/tmp/scp_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    std::filesystem::create_directories(path("from/d/e"));
    std::filesystem::create_directories(path("to"));
  }
  ~Scp() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(std::string_view name) const {
    return base::cat(folder_, "/", name);
  }
  // What the receiver of these bytes says.
  std::string receive_from(std::string_view bytes, const Options& options = {.to = true}) {
    auto to = base::sys::make_pipe();
    auto from = base::sys::make_pipe();
    EXPECT_TRUE(base::sys::write_all(to->second.get(), bytes));
    to->second.reset();
    Peer peer(to->first.get(), from->second.get());
    receive(peer, options, path("to"));
    errors_ = peer.errors();
    from->second.reset();
    return base::sys::read_all(from->first.get(), 1 << 20).value();
  }

  std::string folder_;
  size_t errors_ = 0;
};

TEST_F(Scp, carries_a_tree_with_modes_and_times) {
  ASSERT_TRUE(base::sys::replace_file(path("from/d/f"), std::string(1'000'000, 'x'), 0640));
  ASSERT_TRUE(base::sys::replace_file(path("from/d/e/it's one"), "", 0444));
  ASSERT_EQ(::chmod(path("from/d/e").c_str(), 0500), 0);
  const std::array<timespec, 2> times{timespec{.tv_sec = 5, .tv_nsec = 0},
                                      timespec{.tv_sec = 6, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path("from/d/f").c_str(), times.data(), 0), 0);
  auto there = base::sys::make_pipe();
  auto back = base::sys::make_pipe();
  const Options options{.recursive = true, .keep_times = true};
  std::thread sender([&] {
    Peer peer(back->first.get(), there->second.get());
    send(peer, options, {path("from/d")});
    EXPECT_EQ(peer.errors(), 0U);
    there->second.reset();
  });
  Peer peer(there->first.get(), back->second.get());
  receive(peer, options, path("to"));
  sender.join();
  EXPECT_EQ(peer.errors(), 0U);
  struct stat file{};
  ASSERT_EQ(::stat(path("to/d/f").c_str(), &file), 0);
  EXPECT_EQ(file.st_size, 1'000'000);
  EXPECT_EQ(file.st_mode & 07777, 0640U);
  EXPECT_EQ(file.st_mtime, 6);
  ASSERT_EQ(::stat(path("to/d/e").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0500U);
  EXPECT_TRUE(std::filesystem::exists(path("to/d/e/it's one")));
}

TEST_F(Scp, refuses_a_name_that_leads_elsewhere) {
  const std::string said = receive_from(base::cat("C0644 1 ../evil\nx", '\0'));
  EXPECT_NE(said.find("unexpected filename"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(path("evil")));
  EXPECT_EQ(errors_, 1U);
}

TEST_F(Scp, takes_no_folder_unless_asked_to) {
  receive_from("D0755 0 d\nE\n");
  EXPECT_FALSE(std::filesystem::exists(path("to/d")));
  EXPECT_EQ(errors_, 1U);
}

TEST_F(Scp, says_which_file_it_cannot_write_and_goes_on) {
  std::filesystem::create_directories(path("to/a"));
  const std::string said = receive_from(base::cat("C0644 1 a\nC0644 2 b\nhi", '\0'));
  EXPECT_NE(said.find("Is a directory"), std::string::npos) << said;
  EXPECT_EQ(base::sys::read_file(path("to/b"), 10).value(), "hi");
  EXPECT_EQ(errors_, 1U);
}

TEST_F(Scp, cuts_what_was_longer_before) {
  ASSERT_TRUE(base::sys::replace_file(path("to/a"), "longer than that", 0600));
  receive_from(base::cat("C0644 3 a\nnew", '\0'));
  EXPECT_EQ(base::sys::read_file(path("to/a"), 100).value(), "new");
}

TEST_F(Scp, holds_no_endless_line) {
  receive_from(std::string(10'000, 'C'));
  EXPECT_TRUE(std::filesystem::is_empty(path("to")));
}

TEST_F(Scp, tells_what_is_no_file) {
  auto there = base::sys::make_pipe();
  auto back = base::sys::make_pipe();
  ASSERT_TRUE(base::sys::write_all(back->second.get(), std::string(1, '\0')));
  Peer peer(back->first.get(), there->second.get());
  send(peer, {}, {path("from"), path("none")});
  there->second.reset();
  const std::string said = base::sys::read_all(there->first.get(), 10'000).value();
  EXPECT_NE(said.find("not a regular file"), std::string::npos) << said;
  EXPECT_NE(said.find("No such file"), std::string::npos) << said;
  EXPECT_EQ(peer.errors(), 2U);
}

}  // namespace
}  // namespace agent::scp
