#include "service/master_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace service {
namespace {

using base::ErrorCode;

MasterKey key_of(char c) { return make_master_key(base::Secret(std::string(kMasterKeyBytes, c))); }

struct KeyFile : ::testing::Test {
  KeyFile() {
    std::string name = std::filesystem::temp_directory_path() / "key-file-XXXXXX";
    folder = ::mkdtemp(name.data());
    path = folder + "/secret.key";
  }
  ~KeyFile() override { std::filesystem::remove_all(folder); }
  std::string folder;
  std::string path;
};

TEST(MasterKeys, are_told_apart_by_an_id_that_says_nothing_of_them) {
  EXPECT_EQ(key_of('a').id, key_of('a').id);
  EXPECT_NE(key_of('a').id, key_of('b').id);
  EXPECT_EQ(key_of('a').id.size(), 2 * kKeyIdBytes);
  EXPECT_EQ(base::hex(key_of('a').raw_id), key_of('a').id);
  EXPECT_TRUE(key_of('a').fingerprint.starts_with(key_of('a').id));
}

TEST(MasterKeys, a_command_prints_them_in_hexadecimal_digits_or_base64) {
  const std::string a(kMasterKeyBytes, '\xA5');
  const std::string b(kMasterKeyBytes, 'b');
  const auto keys = parse_key_lines("\n  " + base::hex(a) + " \n" + base::base64(b) + "\n\n");
  ASSERT_TRUE(keys) << keys.error().message;
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->front().bytes.reveal(), a);
  EXPECT_EQ(keys->back().bytes.reveal(), b);
}

TEST(MasterKeys, what_is_none_is_refused_and_not_repeated) {
  const std::string right = base::hex(std::string(kMasterKeyBytes, 'x'));
  for (const std::string& text :
       {std::string(), std::string("\n\n"), right.substr(1), right + "0", "zz" + right.substr(2),
        base::cat(right, "\n", right), base::base64("too short"), std::string(4000, 'A')}) {
    const auto keys = parse_key_lines(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(keys.error().code, ErrorCode::malformed);
    EXPECT_EQ(keys.error().message.find(right.substr(2, 8)), std::string::npos);
  }
  std::string many;
  for (size_t i = 0; i <= kMasterKeysMax; ++i) {
    many += base::hex(std::string(kMasterKeyBytes, static_cast<char>(i))) + "\n";
  }
  EXPECT_FALSE(parse_key_lines(many));
}

TEST_F(KeyFile, holds_the_oldest_first_for_its_user_alone) {
  EXPECT_TRUE(read_key_file(path)->empty());
  ASSERT_TRUE(write_key_file(path, {key_of('a'), key_of('b')}));
  struct stat state{};
  ASSERT_EQ(::stat(path.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777U, 0600U);
  const auto keys = read_key_file(path);
  ASSERT_TRUE(keys);
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->front().id, key_of('a').id);
  EXPECT_EQ(keys->back().id, key_of('b').id);
  ASSERT_TRUE(write_key_file(path, {}));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(write_key_file(path, {}));
}

TEST_F(KeyFile, stays_its_user_s_whoever_writes_it) {
  if (::getuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  ASSERT_TRUE(write_key_file(path, {key_of('a')}));
  constexpr uid_t kSomebody = 1234;
  ASSERT_EQ(::chown(path.c_str(), kSomebody, kSomebody), 0);
  ASSERT_TRUE(write_key_file(path, {key_of('a'), key_of('b')}));
  struct stat state{};
  ASSERT_EQ(::stat(path.c_str(), &state), 0);
  EXPECT_EQ(state.st_uid, kSomebody);
}

TEST_F(KeyFile, is_written_through_no_link_and_into_no_file_that_was_there) {
  const std::string other = path + ".other";
  const std::string fresh = path + ".new";
  std::ofstream(other) << "of somebody else";
  struct stat before{};
  ASSERT_EQ(::stat(other.c_str(), &before), 0);
  ASSERT_EQ(::symlink(other.c_str(), fresh.c_str()), 0);
  ASSERT_TRUE(write_key_file(path, {key_of('a')}));
  ASSERT_EQ(::link(other.c_str(), fresh.c_str()), 0);
  ASSERT_TRUE(write_key_file(path, {key_of('a'), key_of('b')}));
  struct stat after{};
  ASSERT_EQ(::stat(other.c_str(), &after), 0);
  EXPECT_EQ(after.st_size, before.st_size);
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_EQ(read_key_file(path)->size(), 2U);
}

TEST_F(KeyFile, of_another_size_is_refused) {
  for (const size_t size : {size_t{0}, kMasterKeyBytes - 1, kMasterKeyBytes + 1, size_t{10'000}}) {
    std::ofstream(path) << std::string(size, 'x');
    EXPECT_FALSE(read_key_file(path)) << size;
  }
  std::ofstream(path) << std::string(2 * kMasterKeyBytes, 'x');
  EXPECT_FALSE(read_key_file(path));  // twice the same
}

}  // namespace
}  // namespace service
