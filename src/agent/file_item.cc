#include "agent/file_item.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/file_request.h"
#include "agent/open_path.h"
#include "base/clock.h"
#include "base/log.h"

namespace agent {
namespace {

std::string_view type_name(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    case S_IFIFO:
      return "fifo";
    case S_IFSOCK:
      return "socket";
    case S_IFBLK:
      return "block_device";
    default:
      return "character_device";
  }
}

std::string modified_at(const struct stat& status) {
  // Beyond what four digits of a year can show, the ends of the range are shown.
  constexpr int64_t kSecondsMax = 253'402'300'799;
  constexpr int64_t kMsPerSecond = 1000;
  constexpr int64_t kNsPerMs = 1'000'000;
  const int64_t seconds = std::clamp<int64_t>(status.st_mtim.tv_sec, 0, kSecondsMax);
  return base::rfc3339(base::from_ms(seconds * kMsPerSecond + status.st_mtim.tv_nsec / kNsPerMs));
}

// Of a link by its folder and name, or by a descriptor of itself and "".
void append_target(std::string& out, int folder, const std::string& name,
                   const struct stat& status) {
  std::array<char, PATH_MAX> target;
  const ssize_t size = S_ISLNK(status.st_mode)
                           ? ::readlinkat(folder, name.c_str(), target.data(), target.size())
                           : -1;
  if (size < 0) {
    out += "null";
    return;
  }
  base::append_json_string(out, std::string_view(target.data(), static_cast<size_t>(size)));
}

void append_fields(std::string& out, std::string_view name, const std::string& path,
                   const struct stat& status) {
  out += "{\"name\":";
  base::append_json_string(out, name);
  out += ",\"path\":";
  base::append_json_string(out, path);
  if (!base::is_utf8(path)) {
    // What JSON cannot hold, ready to be put into a query.
    out += base::cat(",\"path_encoded\":\"", base::percent_encode(path), '"');
  }
  out += base::cat(",\"type\":\"", type_name(status.st_mode), "\",\"size\":", status.st_size,
                   ",\"mode\":\"", octal_mode(status.st_mode), "\",\"uid\":", status.st_uid,
                   ",\"gid\":", status.st_gid, ",\"mtime\":\"", modified_at(status),
                   "\",\"link_target\":");
}

}  // namespace

std::string octal_mode(mode_t mode) {
  std::string text = "0000";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto shift = static_cast<unsigned>(3 * (text.size() - 1 - i));
    text[i] = static_cast<char>('0' + ((mode >> shift) & 7U));
  }
  return text;
}

void append_item(std::string& out, int folder, const std::string& name, const std::string& path,
                 const struct stat& status) {
  append_fields(out, name, path, status);
  append_target(out, folder, name, status);
  out += '}';
}

Result<std::string> item_at(const std::string& path) {
  ASSIGN_OR_RETURN(const base::Fd place, open_path(AT_FDCWD, path, O_PATH | O_NOFOLLOW));
  struct stat status{};
  if (::fstat(place.get(), &status) != 0) {
    return std::unexpected(file_error(errno, path));
  }
  std::string shown = path;
  while (shown.size() > 1 && shown.ends_with('/')) {
    shown.pop_back();
  }
  const std::string_view name = std::string_view(shown).substr(shown.rfind('/') + 1);
  std::string out;
  append_fields(out, name.empty() ? "/" : name, shown, status);
  append_target(out, place.get(), "", status);
  out += '}';
  return out;
}

}  // namespace agent
