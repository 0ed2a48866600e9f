#include "agent/accounts.h"

#include <gtest/gtest.h>

namespace agent {
namespace {

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/sh\n"
    "broken line\n"
    "+::::::\n"
    "odd:x:-1:0:odd:/:/bin/sh\n"
    "user:x:1000:1001:User:/home/user:/bin/sh\n"
    "late:x:1002:1002::relative:/bin/sh";
constexpr std::string_view kGroup =
    "root:x:0:\n"
    "user:x:1001:\n"
    "audio:x:29:user,root\n"
    "video:x:44:late,user\n"
    "users:x:100:user";

Result<Identity> find(std::string_view user) { return resolve_user(user, kPasswd, kGroup); }

TEST(Accounts, users_are_found_by_name_and_number) {
  const Identity user{.uid = 1000, .gid = 1001, .groups = {29, 44, 100}, .home = "/home/user"};
  EXPECT_EQ(find("user"), user);
  EXPECT_EQ(find("1000"), user);
  EXPECT_EQ(find("")->home, "/root");
  EXPECT_EQ(find("0")->uid, 0U);
  EXPECT_EQ(find("late")->home, "/");
  EXPECT_EQ(find("77"), (Identity{.uid = 77, .gid = 0, .groups = {}, .home = "/"}));
}

TEST(Accounts, a_named_group_replaces_all_groups) {
  EXPECT_EQ(find("user:audio"),
            (Identity{.uid = 1000, .gid = 29, .groups = {}, .home = "/home/user"}));
  EXPECT_EQ(find("user:5")->gid, 5U);
  EXPECT_EQ(find("9:video")->gid, 44U);
}

// Row 23 of the security checklist.
TEST(Accounts, what_is_not_exactly_a_user_is_refused) {
  for (const std::string_view user :
       {"+0", "00", " 1000", "1000 ", "1000:", ":0", ":", "4294967295", "4294967296", "-1",
        "root\n", "nobody-here", "user:nothing", "user:00", "odd", "+", "1000:1:1", "0x0",
        "99999999999999999999"}) {
    const auto found = find(user);
    ASSERT_FALSE(found.has_value()) << user;
    EXPECT_EQ(found.error().code, ErrorCode::user_unknown) << user;
  }
}

TEST(Accounts, without_files_numbers_still_work) {
  Accounts accounts("/nonexistent/passwd", "/nonexistent/group");
  EXPECT_EQ(accounts.find("12:34")->gid, 34U);
  EXPECT_FALSE(accounts.find("root").has_value());
  // A device in their place is not read.
  Accounts devices("/dev/zero", "/dev/zero");
  EXPECT_EQ(devices.find("")->uid, 0U);
}

TEST(Accounts, the_shell_is_the_last_field_of_the_users_line) {
  constexpr std::string_view kLines =
      "root:x:0:0:root:/root:/bin/bash\nshort:x:7:7:short:/home\nweb:x:33:33::/:\n";
  EXPECT_EQ(find_shell(kLines, 0), "/bin/bash");
  EXPECT_EQ(find_shell(kLines, 7), "");
  EXPECT_EQ(find_shell(kLines, 33), "");
  EXPECT_EQ(find_shell(kLines, 1000), "");
  EXPECT_EQ(find_name(kLines, 33), "web");
  EXPECT_EQ(find_name(kLines, 1000), "");
}

}  // namespace
}  // namespace agent
