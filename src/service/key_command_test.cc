#include "service/key_command.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace service {
namespace {

using base::ErrorCode;

struct KeyCommand : ::testing::Test {
  KeyCommand() {
    std::string name = std::filesystem::temp_directory_path() / "key-command-XXXXXX";
    folder = ::mkdtemp(name.data());
  }
  ~KeyCommand() override { std::filesystem::remove_all(folder); }
  [[nodiscard]] base::Result<KeyRing> run(const std::string& script,
                                          base::Milliseconds patience = kKeyCommandPatience) const {
    return run_key_command({"/bin/sh", "-c", script}, patience);
  }
  static std::string key(char c) { return base::hex(std::string(kMasterKeyBytes, c)); }
  std::string folder;
};

TEST_F(KeyCommand, gives_the_keys_that_it_prints) {
  const auto keys = run("echo " + key('a') + "; echo " + key('b'));
  ASSERT_TRUE(keys) << keys.error().message;
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->back().bytes.reveal(), std::string(kMasterKeyBytes, 'b'));
}

TEST_F(KeyCommand, that_fails_gives_none_and_says_how) {
  const auto failed = run("echo " + key('a') + "; exit 3");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::unavailable);
  EXPECT_NE(failed.error().message.find('3'), std::string::npos);
  EXPECT_FALSE(run("kill -9 $$"));
  EXPECT_FALSE(run("true"));
  EXPECT_FALSE(run("echo nonsense " + key('a')));
  EXPECT_EQ(run_key_command({folder + "/none"}).error().code, ErrorCode::invalid_field);
  EXPECT_EQ(run_key_command({"sh", "-c", "true"}).error().code, ErrorCode::invalid_field);
  EXPECT_EQ(run_key_command({}).error().code, ErrorCode::invalid_field);
  std::ofstream(folder + "/no-program") << "what is this";
  std::filesystem::permissions(folder + "/no-program", std::filesystem::perms::owner_all);
  EXPECT_FALSE(run_key_command({folder + "/no-program"}));
}

TEST_F(KeyCommand, that_prints_without_end_is_ended) {
  const auto endless = run("while :; do echo " + key('a') + "; done");
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().message.find(key('a').substr(0, 8)), std::string::npos);
}

TEST_F(KeyCommand, that_has_no_end_is_ended_with_all_that_it_started) {
  const std::string note = folder + "/pid";
  const auto begun = std::chrono::steady_clock::now();
  for (const std::string closes : {"", "exec >&-; "}) {
    const auto late =
        run(base::cat(closes, "sleep 1000 & echo $! >", note, "; wait"), base::Milliseconds(500));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ErrorCode::unavailable);
    pid_t child = 0;
    std::ifstream(note) >> child;
    ASSERT_GT(child, 0);
    // It is somebody else's to reap, and soon gone or a zombie.
    const auto is_gone = [child] {
      std::ifstream file("/proc/" + std::to_string(child) + "/stat");
      std::string text;
      std::getline(file, text);
      return text.empty() || text.find(") Z ") != std::string::npos;
    };
    while (!is_gone() && std::chrono::steady_clock::now() - begun < std::chrono::seconds(60)) {
      std::this_thread::sleep_for(base::Milliseconds(10));
    }
    EXPECT_TRUE(is_gone());
  }
}

TEST_F(KeyCommand, has_no_input_of_ours) {
  const auto keys = run("cat; echo " + key('a'));
  EXPECT_TRUE(keys) << keys.error().message;
}

}  // namespace
}  // namespace service
