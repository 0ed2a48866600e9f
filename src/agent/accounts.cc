#include "agent/accounts.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

#include "base/sys.h"

namespace agent {
namespace {

constexpr uint32_t kIdMax = 4294967294U;  // the one above means "no change" to the kernel
// The kernel's NGROUPS_MAX is 65536; no sensible user is in more groups than this.
constexpr size_t kGroupsMax = 1024;

std::optional<uint32_t> parse_id(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') {
    return std::nullopt;
  }
  const auto id = base::parse_number<uint32_t>(text);
  return id && *id <= kIdMax ? id : std::nullopt;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Calls visit(fields) for each line with at least N fields until it returns true.
template <size_t N, typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::array<std::string_view, N> fields;
    std::string_view rest = line;
    size_t count = 0;
    for (; count < N; ++count) {
      const size_t colon = rest.find(':');
      fields.at(count) = rest.substr(0, colon);
      if (colon == std::string_view::npos) {
        ++count;
        break;
      }
      rest.remove_prefix(colon + 1);
    }
    if (count == N && !fields[0].empty() && visit(fields)) {
      return;
    }
  }
}

struct User {
  std::string_view name;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::string_view home;
};

// By uid where one is given, else by name.
std::optional<User> find_user(std::string_view passwd, std::optional<uint32_t> uid,
                              std::string_view name) {
  std::optional<User> found;
  for_each_line<6>(passwd, [&](const std::array<std::string_view, 6>& fields) {
    const auto line_uid = parse_id(fields[2]);
    const auto line_gid = parse_id(fields[3]);
    if (!line_uid || !line_gid || (uid ? *uid != *line_uid : name != fields[0])) {
      return false;
    }
    found = User{.name = fields[0], .uid = *line_uid, .gid = *line_gid, .home = fields[5]};
    return true;
  });
  return found;
}

std::optional<uint32_t> find_group(std::string_view group, std::string_view name) {
  std::optional<uint32_t> found;
  for_each_line<3>(group, [&](const std::array<std::string_view, 3>& fields) {
    const auto gid = parse_id(fields[2]);
    if (!gid || fields[0] != name) {
      return false;
    }
    found = gid;
    return true;
  });
  return found;
}

std::vector<uint32_t> groups_of(std::string_view group, std::string_view user) {
  std::vector<uint32_t> found;
  for_each_line<4>(group, [&](const std::array<std::string_view, 4>& fields) {
    const auto gid = parse_id(fields[2]);
    const auto members = base::split(fields[3], ',');
    if (gid && std::ranges::find(members, user) != members.end() &&
        std::ranges::find(found, *gid) == found.end()) {
      found.push_back(*gid);
    }
    return found.size() >= kGroupsMax;
  });
  return found;
}

std::unexpected<base::Error> unknown(std::string_view user, std::string_view why) {
  auto error = base::fail(ErrorCode::user_unknown, "user '", user, "': ", why);
  error.error().details.emplace_back("field", "user");
  return error;
}

}  // namespace

Result<Identity> resolve_user(std::string_view user, std::string_view passwd,
                              std::string_view group) {
  const std::string_view spec = user.empty() ? std::string_view("0") : user;
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  std::optional<uint32_t> uid;
  if (is_number(name)) {
    uid = parse_id(name);
    if (!uid) {
      return unknown(user, "not a valid user id");
    }
  }
  const auto entry = find_user(passwd, uid, name);
  if (name.empty() || (!uid && !entry)) {
    return unknown(user, "there is no such user in the sandbox");
  }
  Identity identity{.uid = uid.value_or(entry ? entry->uid : 0), .gid = entry ? entry->gid : 0};
  if (entry && entry->home.starts_with('/')) {
    identity.home = entry->home;
  }
  if (colon == std::string_view::npos) {
    if (entry) {
      identity.groups = groups_of(group, entry->name);
    }
    return identity;
  }
  const std::string_view group_name = spec.substr(colon + 1);
  const auto gid = is_number(group_name) ? parse_id(group_name) : find_group(group, group_name);
  if (!gid) {
    return unknown(user, "there is no such group in the sandbox");
  }
  identity.gid = *gid;
  return identity;
}

std::string find_shell(std::string_view passwd, uint32_t uid) {
  std::string found;
  for_each_line<7>(passwd, [&](const std::array<std::string_view, 7>& fields) {
    if (parse_id(fields[2]) != uid) {
      return false;
    }
    found = fields[6];
    return true;
  });
  return found;
}

std::string find_name(std::string_view passwd, uint32_t uid) {
  const auto user = find_user(passwd, uid, "");
  return user ? std::string(user->name) : std::string();
}

std::string find_group_name(std::string_view group, uint32_t gid) {
  std::string found;
  for_each_line<3>(group, [&](const std::array<std::string_view, 3>& fields) {
    if (parse_id(fields[2]) != gid) {
      return false;
    }
    found = fields[0];
    return true;
  });
  return found;
}

Accounts::Accounts(std::string passwd_path, std::string group_path) {
  passwd_.path = std::move(passwd_path);
  group_.path = std::move(group_path);
}

bool Accounts::refresh(Source& source) {
  struct stat now{};
  if (::stat(source.path.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) {
    // A pipe or a device in its place would block or never end.
    now = {};
  }
  const auto key = [](const struct stat& s) {
    return std::array<int64_t, 7>{static_cast<int64_t>(s.st_dev),
                                  static_cast<int64_t>(s.st_ino),
                                  s.st_size,
                                  s.st_mtim.tv_sec,
                                  s.st_mtim.tv_nsec,
                                  s.st_ctim.tv_sec,
                                  s.st_ctim.tv_nsec};
  };
  if (key(now) == key(source.seen)) {
    return false;
  }
  source.seen = now;
  source.text.clear();
  if (now.st_ino != 0) {
    const auto file = base::sys::open(source.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    auto text = file ? base::sys::read_all(file->get(), kAccountFileBytesMax)
                     : Result<std::string>(std::unexpected(file.error()));
    source.text = text ? std::move(*text) : std::string();
  }
  return true;
}

std::string Accounts::shell_of(uint32_t uid) {
  last_.reset();
  refresh(passwd_);
  return find_shell(passwd_.text, uid);
}

std::string Accounts::name_of(uint32_t uid) {
  last_.reset();
  refresh(passwd_);
  return find_name(passwd_.text, uid);
}

std::string Accounts::group_name_of(uint32_t gid) {
  last_.reset();
  refresh(group_);
  return find_group_name(group_.text, gid);
}

Result<Identity> Accounts::find(std::string_view user) {
  const bool passwd_changed = refresh(passwd_);
  const bool group_changed = refresh(group_);
  if (!last_ || passwd_changed || group_changed || user != last_user_) {
    last_.reset();
    ASSIGN_OR_RETURN(last_, resolve_user(user, passwd_.text, group_.text));
    last_user_ = user;
  }
  return *last_;
}

}  // namespace agent
