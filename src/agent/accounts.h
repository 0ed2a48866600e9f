// Who a command or a file request acts as: the users and groups of the sandbox's own /etc/passwd
// and /etc/group, read without the C library's name service (a static program would load the
// image's plug-ins). Both files are the sandbox's and may hold anything: what is not a proper line
// is skipped. Owned by the agent; loop thread only; at most kAccountFileBytesMax of each is held.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace agent {

using base::ErrorCode;
using base::Result;

// A file with 10,000 users has 600 KiB.
inline constexpr size_t kAccountFileBytesMax = size_t{2} * 1024 * 1024;

struct Identity {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // supplementary
  std::string home = "/";
  bool operator==(const Identity&) const = default;
};

// "", name, uid, name:group, uid:gid and their mixtures, as images have it. A number is decimal
// without sign, blanks or leading zeros and below 4294967295. A uid without an entry has group 0
// and home "/"; supplementary groups are those that list the user, none when a group is named.
// user_unknown for everything else.
Result<Identity> resolve_user(std::string_view user, std::string_view passwd,
                              std::string_view group);

// The seventh and the first field of that user's line in `passwd`; empty without one.
std::string find_shell(std::string_view passwd, uint32_t uid);
std::string find_name(std::string_view passwd, uint32_t uid);
// The name of the group with that number in `group`; empty without one.
std::string find_group_name(std::string_view group, uint32_t gid);

// uid and gid of an `owner=`: like resolve_user, but without a group the user's own is taken.
class Accounts {
 public:
  Accounts() : Accounts("/etc/passwd", "/etc/group") {}
  Accounts(std::string passwd_path, std::string group_path);
  Result<Identity> find(std::string_view user);
  // The program that /etc/passwd names for logins of that user; empty without one.
  std::string shell_of(uint32_t uid);
  // Its first name there; empty without one.
  std::string name_of(uint32_t uid);
  // The same of a group in /etc/group.
  std::string group_name_of(uint32_t gid);

 private:
  struct Source {
    std::string path;
    struct stat seen{};
    std::string text;
  };
  // True if the file changed since it was last looked at; its text is then read again.
  static bool refresh(Source& source);

  Source passwd_;
  Source group_;
  // The last answer: most requests of a sandbox ask for the same user.
  std::string last_user_;
  std::optional<Identity> last_;
};

}  // namespace agent
