#include "base/sys.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/file_lock.h"

namespace base::sys {
namespace {

// A fresh folder under the test's temporary folder, gone with the fixture.
class Sys : public ::testing::Test {
 protected:
  Sys() {
    std::string pattern = ::testing::TempDir() + "/sys_test.XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    root_ = std::move(*open(folder_, O_RDONLY | O_DIRECTORY));
  }
  ~Sys() override { EXPECT_TRUE(remove_tree(folder_).has_value()); }

  void write(const std::string& name, std::string_view bytes) {
    ASSERT_TRUE(replace_file(at(name), bytes, 0644).has_value());
  }
  [[nodiscard]] std::string at(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] bool exists(const std::string& name) const {
    struct stat status{};
    return ::lstat(at(name).c_str(), &status) == 0;
  }

  std::string folder_;
  Fd root_;
};

int errno_of(const Result<Fd>& result) { return result ? 0 : result.error().errno_value; }

TEST_F(Sys, open_beneath_opens_what_is_inside) {
  ASSERT_TRUE(make_folders(at("a/b"), 0755));
  write("a/b/file", "inside");
  const auto file = open_beneath(root_.get(), "a/./b/../b/file", O_RDONLY);
  ASSERT_TRUE(file);
  EXPECT_EQ(read_all(file->get(), 100), "inside");
}

TEST_F(Sys, open_beneath_refuses_every_way_out) {
  ASSERT_TRUE(make_folder(at("a"), 0755));
  write("a/file", "x");
  ASSERT_EQ(::symlink("/etc", at("absolute").c_str()), 0);
  ASSERT_EQ(::symlink("..", at("up").c_str()), 0);
  ASSERT_EQ(::symlink("a", at("harmless").c_str()), 0);
  ASSERT_EQ(::symlink("a/file", at("last").c_str()), 0);
  EXPECT_EQ(errno_of(open_beneath(root_.get(), "..", O_RDONLY)), EXDEV);
  EXPECT_EQ(errno_of(open_beneath(root_.get(), "a/../../x", O_RDONLY)), EXDEV);
  EXPECT_EQ(errno_of(open_beneath(root_.get(), "/etc/passwd", O_RDONLY)), EXDEV);
  for (const char* path : {"absolute/passwd", "up/x", "harmless/file", "last"}) {
    EXPECT_EQ(errno_of(open_beneath(root_.get(), path, O_RDONLY)), ELOOP) << path;
  }
}

TEST_F(Sys, open_in_root_takes_links_as_from_the_root) {
  ASSERT_TRUE(make_folder(at("etc"), 0755));
  write("etc/passwd", "inner");
  ASSERT_EQ(::symlink("/etc", at("absolute").c_str()), 0);
  ASSERT_EQ(::symlink("../../../../etc", at("up").c_str()), 0);
  for (const char* path : {"absolute/passwd", "up/passwd", "../../etc/passwd", "/etc/passwd"}) {
    const auto file = open_in_root(root_.get(), path, O_RDONLY);
    ASSERT_TRUE(file) << path;
    EXPECT_EQ(read_all(file->get(), 100), "inner") << path;
  }
}

TEST_F(Sys, open_in_root_follows_no_magic_link) {
  const auto proc = open("/proc", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(proc);
  EXPECT_EQ(errno_of(open_in_root(proc->get(), "self/root", O_RDONLY)), ELOOP);
}

TEST_F(Sys, opened_files_do_not_pass_exec) {
  write("file", "");
  const auto file = open(at("file"), O_RDONLY);
  ASSERT_TRUE(file);
  EXPECT_NE(::fcntl(file->get(), F_GETFD) & FD_CLOEXEC, 0);
  const auto pipe = make_pipe();
  EXPECT_NE(::fcntl(pipe->first.get(), F_GETFD) & FD_CLOEXEC, 0);
  const auto pair = make_socket_pair(SOCK_STREAM);
  EXPECT_NE(::fcntl(pair->second.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(Sys, read_file_refuses_more_than_its_bound) {
  write("file", std::string(100, 'x'));
  EXPECT_EQ(read_file(at("file"), 100), std::string(100, 'x'));
  const auto refused = read_file(at("file"), 99);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::body_too_large);
  EXPECT_EQ(read_file(at("none"), 99).error().errno_value, ENOENT);
}

TEST_F(Sys, replace_file_leaves_no_temporary_and_sets_the_mode) {
  write("file", "old");
  ASSERT_TRUE(replace_file(at("file"), "new", 0600));
  EXPECT_EQ(read_file(at("file"), 100), "new");
  struct stat status{};
  ASSERT_EQ(::stat(at("file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(list_folder(folder_), std::vector<std::string>{"file"});
}

TEST_F(Sys, replace_file_writes_through_no_link_and_into_no_file_that_was_there) {
  write("other", "of somebody else");
  ASSERT_EQ(::symlink(at("other").c_str(), at("file.new").c_str()), 0);
  ASSERT_TRUE(replace_file(at("file"), "new", 0600));
  EXPECT_EQ(read_file(at("other"), 100), "of somebody else");
  EXPECT_EQ(read_file(at("file"), 100), "new");
  ASSERT_EQ(::link(at("other").c_str(), at("file.new").c_str()), 0);
  ASSERT_TRUE(replace_file(at("file"), "newer", 0600));
  EXPECT_EQ(read_file(at("other"), 100), "of somebody else");
  EXPECT_EQ(read_file(at("file"), 100), "newer");
}

TEST_F(Sys, a_lock_is_no_link) {
  ASSERT_EQ(::symlink(at("other").c_str(), at("lock").c_str()), 0);
  EXPECT_EQ(lock_file(at("lock"), 0600).error().errno_value, ELOOP);
  EXPECT_FALSE(exists("other"));
}

TEST_F(Sys, list_subfolders_tells_folders_from_files_and_links) {
  ASSERT_TRUE(make_folders(at("folder/inner"), 0755));
  write("file", "x");
  ASSERT_EQ(::symlink("folder", at("link").c_str()), 0);
  EXPECT_EQ(list_subfolders(folder_), std::vector<std::string>{"folder"});
  EXPECT_EQ(list_subfolders(at("none")).error().errno_value, ENOENT);
}

TEST_F(Sys, remove_tree_follows_no_link) {
  ASSERT_TRUE(make_folders(at("keep"), 0755));
  write("keep/file", "still here");
  ASSERT_TRUE(make_folders(at("tree/deep/er"), 0755));
  write("tree/deep/file", "x");
  ASSERT_EQ(::symlink(at("keep").c_str(), at("tree/link").c_str()), 0);
  ASSERT_EQ(::symlink(at("keep").c_str(), at("to-keep").c_str()), 0);
  ASSERT_TRUE(remove_tree(at("tree")));
  ASSERT_TRUE(remove_tree(at("to-keep")));
  EXPECT_FALSE(exists("tree"));
  EXPECT_FALSE(exists("to-keep"));
  EXPECT_EQ(read_file(at("keep/file"), 100), "still here");
}

TEST_F(Sys, remove_tree_takes_a_file_and_what_is_absent) {
  write("file", "x");
  EXPECT_TRUE(remove_tree(at("file")));
  EXPECT_FALSE(exists("file"));
  EXPECT_TRUE(remove_tree(at("file")));
  EXPECT_TRUE(remove_tree(at("no/such/folder")));
}

TEST_F(Sys, listen_unix_replaces_a_stale_socket_file) {
  const std::string path = at("s");
  {
    const auto stale = listen_unix(path, 0600, 1);
  }
  const auto listener = listen_unix(path, 0660, 1);
  ASSERT_TRUE(listener);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0660U);
  EXPECT_TRUE(connect_unix(path, false));
}

TEST_F(Sys, unix_sockets_are_reached_by_paths_of_any_length) {
  std::string folder = at(std::string(150, 'f'));
  ASSERT_TRUE(make_folder(folder, 0700));
  const std::string path = folder + "/agent.sock";
  {
    const auto stale = listen_unix(path, 0600, 1);
  }
  const auto listener = listen_unix(path, 0660, 1);
  ASSERT_TRUE(listener) << listener.error().message;
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0660U);
  EXPECT_TRUE(connect_unix(path, false));
  EXPECT_EQ(connect_unix(folder + "/other.sock", false).error().errno_value, ENOENT);
  EXPECT_EQ(connect_unix(folder + "x/agent.sock", false).error().errno_value, ENOENT);
}

TEST_F(Sys, unix_path_that_is_too_long_is_an_error_not_a_shorter_path) {
  const auto result = listen_unix(at(std::string(200, 'x')), 0600, 1);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().errno_value, ENAMETOOLONG);
}

TEST_F(Sys, sealed_memory_cannot_be_changed) {
  const auto memory = make_sealed_memory("test", "fixed");
  ASSERT_TRUE(memory);
  EXPECT_EQ(::write(memory->get(), "y", 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(memory->get(), 0), -1);
  EXPECT_EQ(::mmap(nullptr, 5, PROT_READ | PROT_WRITE, MAP_SHARED, memory->get(), 0), MAP_FAILED);
  EXPECT_EQ(read_all(memory->get(), 100), "fixed");
}

TEST_F(Sys, descriptors_travel_with_their_message) {
  const auto pair = make_socket_pair(SOCK_STREAM);
  auto pipe = make_pipe();
  const std::array fds = {pipe->second.get()};
  ASSERT_TRUE(send_with_fds(pair->first.get(), "take this", fds));
  std::array<char, 64> buffer{};
  auto received = receive_with_fds(pair->second.get(), buffer);
  ASSERT_TRUE(received);
  EXPECT_EQ(std::string_view(buffer.data(), received->size), "take this");
  ASSERT_EQ(received->fds.size(), 1U);
  EXPECT_NE(::fcntl(received->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_TRUE(write_all(received->fds[0].get(), "through"));
  received->fds.clear();
  pipe->second.reset();
  EXPECT_EQ(read_all(pipe->first.get(), 100), "through");
}

TEST_F(Sys, too_many_descriptors_are_refused_before_sending) {
  const auto pair = make_socket_pair(SOCK_STREAM);
  const std::vector<int> fds(17, root_.get());
  EXPECT_FALSE(send_with_fds(pair->first.get(), "x", fds));
}

size_t open_fd_count() { return list_folder("/proc/self/fd")->size(); }

TEST_F(Sys, errors_leak_no_descriptor) {
  const size_t before = open_fd_count();
  for (int i = 0; i < 10; ++i) {
    (void)open_beneath(root_.get(), "none", O_RDONLY);
    (void)read_file(at("none"), 1);
    (void)listen_unix(at("no/folder/s"), 0600, 1);
    (void)connect_unix(at("none"), false);
    (void)remove_tree(at("none"));
    (void)replace_file(at("no/folder"), "x", 0600);
  }
  EXPECT_EQ(open_fd_count(), before);
}

TEST(Fd, closes_once_and_moves) {
  auto pipe = make_pipe();
  const int number = pipe->first.get();
  Fd moved = std::move(pipe->first);
  EXPECT_FALSE(pipe->first.valid());  // NOLINT(bugprone-use-after-move): the moved-from state
  EXPECT_EQ(moved.get(), number);
  const int released = moved.release();
  moved.reset();
  EXPECT_EQ(::fcntl(released, F_GETFD), FD_CLOEXEC);
  {
    const Fd closes(released);
  }
  EXPECT_EQ(::fcntl(released, F_GETFD), -1);
}

}  // namespace
}  // namespace base::sys
