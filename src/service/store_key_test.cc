#include "service/store_key.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "service/store_setup.h"

namespace service {
namespace {

using base::ErrorCode;

struct StoreKey : ::testing::Test {
  StoreKey() {
    std::string name = std::filesystem::temp_directory_path() / "store-key-XXXXXX";
    folder = ::mkdtemp(name.data());
    store = std::move(*store::Store::open(folder + "/gateway.db"));
  }
  ~StoreKey() override {
    store.reset();
    std::filesystem::remove_all(folder);
  }
  static void write(const std::string& file, const std::string& text) {
    std::ofstream(file) << text;
  }

  base::KernelRandom random;
  std::string folder;
  std::unique_ptr<store::Store> store;
};

TEST_F(StoreKey, the_first_key_is_made_and_is_the_store_s_from_then_on) {
  const std::string first = folder + "/first.key";
  const std::string second = folder + "/second.key";
  ASSERT_TRUE(open_secret_box(*store, {.file = first}, random).has_value());
  ASSERT_TRUE(open_secret_box(*store, {.file = first}, random).has_value());
  EXPECT_EQ(open_secret_box(*store, {.file = second}, random).error().code, ErrorCode::conflict);
  EXPECT_FALSE(std::filesystem::exists(second));  // and none was made that looks right
  write(second, std::string(32, 'k'));
  EXPECT_EQ(open_secret_box(*store, {.file = second}, random).error().code, ErrorCode::conflict);
  std::filesystem::copy_file(first, second, std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(open_secret_box(*store, {.file = second}, random).has_value());
}

TEST_F(StoreKey, a_forgotten_key_makes_room_for_another) {
  ASSERT_TRUE(open_secret_box(*store, {.file = folder + "/first.key"}, random).has_value());
  ASSERT_TRUE(forget_key(*store, base::RealClock()).has_value());
  const auto rows = store->page_audit({})->items;
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().event, "key.forget");
  EXPECT_TRUE(open_secret_box(*store, {.file = folder + "/second.key"}, random).has_value());
  EXPECT_FALSE(open_secret_box(*store, {.file = folder + "/first.key"}, random).has_value());
}

TEST_F(StoreKey, a_command_brings_the_key_of_a_new_store_and_no_file_is_made) {
  const std::string key = base::hex(std::string(kMasterKeyBytes, 'k'));
  const KeySources sources{.file = folder + "/secret.key", .command = {"/bin/echo", key}};
  const auto opened = open_secret_box(*store, sources, random);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ(opened->of_command.size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(sources.file));
  EXPECT_EQ(open_secret_box(*store, {.file = sources.file}, random).error().code,
            ErrorCode::conflict);
  EXPECT_EQ(open_secret_box(*store, {.file = sources.file, .command = {"/bin/false"}}, random)
                .error()
                .code,
            ErrorCode::unavailable);
  EXPECT_FALSE(std::filesystem::exists(sources.file));
}

TEST_F(StoreKey, a_folder_keeps_its_id) {
  const auto id = read_replica_id(folder, random);
  ASSERT_TRUE(id.has_value());
  EXPECT_TRUE(id->starts_with("rep-"));
  EXPECT_EQ(*read_replica_id(folder, random), *id);
}

TEST_F(StoreKey, a_folder_and_a_file_are_one_process_s) {
  const auto locks = lock_places(folder, folder + "/gateway.db");
  ASSERT_TRUE(locks.has_value()) << locks.error().message;
  EXPECT_EQ(lock_places(folder, "postgresql://a@b/c").error().code, ErrorCode::conflict);
  const std::string other = folder + "/other";
  std::filesystem::create_directory(other);
  EXPECT_EQ(lock_places(other, folder + "/gateway.db").error().code, ErrorCode::conflict);
  EXPECT_TRUE(lock_places(other, "postgresql://a@b/c").has_value());
}

}  // namespace
}  // namespace service
