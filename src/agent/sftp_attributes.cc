#include "agent/sftp_attributes.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/clock.h"

namespace agent::sftp {
namespace {

constexpr mode_t kModeBits = 07777;
// `ls` shows the year of what is further away.
constexpr int64_t kRecentSeconds = int64_t{365} * 24 * 3600 / 2;

uint32_t seconds32(time_t seconds) {
  return static_cast<uint32_t>(std::clamp<time_t>(seconds, 0, UINT32_MAX));
}

std::array<timespec, 2> times_of(const Attributes& wanted) {
  return {timespec{.tv_sec = wanted.accessed_at, .tv_nsec = 0},
          timespec{.tv_sec = wanted.modified_at, .tv_nsec = 0}};
}

char type_letter(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return 'd';
    case S_IFLNK:
      return 'l';
    case S_IFBLK:
      return 'b';
    case S_IFCHR:
      return 'c';
    case S_IFIFO:
      return 'p';
    case S_IFSOCK:
      return 's';
    default:
      return '-';
  }
}

std::string mode_text(mode_t mode) {
  std::string text(1, type_letter(mode));
  constexpr std::string_view kLetters = "rwxrwxrwx";
  for (size_t i = 0; i < kLetters.size(); ++i) {
    const bool set = (mode >> (kLetters.size() - 1 - i) & 1U) != 0;
    text += set ? kLetters[i] : '-';
  }
  const auto mark = [&](mode_t bit, size_t place, char with, char without) {
    if ((mode & bit) != 0) {
      text[place] = text[place] == 'x' ? with : without;
    }
  };
  mark(S_ISUID, 3, 's', 'S');
  mark(S_ISGID, 6, 's', 'S');
  mark(S_ISVTX, 9, 't', 'T');
  return text;
}

std::string padded(const std::string& text, size_t width, bool to_the_right) {
  const std::string blanks(width - std::min(width, text.size()), ' ');
  return to_the_right ? blanks + text : text + blanks;
}

// "Nov 30 10:47", or "Nov 30  2025" of another half-year.
std::string time_text(time_t seconds) {
  // Years of four digits; what a file system holds beyond them is shown as the last.
  constexpr time_t kLast = 253402300799;
  const time_t shown = std::clamp<time_t>(seconds, 0, kLast);
  const std::string text = base::rfc3339(base::WallTime(std::chrono::seconds(shown)));
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto month = base::parse_number<size_t>(text.substr(5, 2)).value_or(1);
  std::string day = text.substr(8, 2);
  if (day.front() == '0') {
    day.front() = ' ';
  }
  const bool is_recent = std::abs(static_cast<int64_t>(::time(nullptr)) - shown) < kRecentSeconds;
  return base::cat(kMonths.at(month - 1), " ", day, " ",
                   is_recent ? text.substr(11, 5) : base::cat(" ", text.substr(0, 4)));
}

}  // namespace

Attributes attributes_of(const struct stat& file) {
  return {.flags = Attributes::kSize | Attributes::kOwner | Attributes::kMode | Attributes::kTimes,
          .size = static_cast<uint64_t>(file.st_size),
          .uid = file.st_uid,
          .gid = file.st_gid,
          .mode = file.st_mode,
          .accessed_at = seconds32(file.st_atime),
          .modified_at = seconds32(file.st_mtime)};
}

Status status_of(int error) {
  switch (error) {
    case 0:
      return Status::ok;
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case EBADF:
      return Status::no_such_file;
    case EPERM:
    case EACCES:
    case EFAULT:
      return Status::permission_denied;
    case ENAMETOOLONG:
    case EINVAL:
      return Status::bad_message;
    case ENOSYS:
    case EOPNOTSUPP:
      return Status::unsupported;
    default:
      return Status::failure;
  }
}

int apply_to_file(int file, const Attributes& wanted) {
  int error = 0;
  const auto note = [&error](int result) { error = result == 0 ? error : errno; };
  if (wanted.has(Attributes::kSize)) {
    note(::ftruncate(file, static_cast<off_t>(wanted.size)));
  }
  if (wanted.has(Attributes::kMode)) {
    note(::fchmod(file, wanted.mode & kModeBits));
  }
  if (wanted.has(Attributes::kTimes)) {
    note(::futimens(file, times_of(wanted).data()));
  }
  if (wanted.has(Attributes::kOwner)) {
    note(::fchown(file, wanted.uid, wanted.gid));
  }
  return error;
}

int apply_to_path(const std::string& path, const Attributes& wanted, Links links) {
  const int flags = links == Links::keep ? AT_SYMLINK_NOFOLLOW : 0;
  int error = 0;
  const auto note = [&error](int result) { error = result == 0 ? error : errno; };
  if (wanted.has(Attributes::kSize)) {
    if (links == Links::keep) {
      error = EINVAL;
    } else {
      note(::truncate(path.c_str(), static_cast<off_t>(wanted.size)));
    }
  }
  if (wanted.has(Attributes::kMode)) {
    note(::fchmodat(AT_FDCWD, path.c_str(), wanted.mode & kModeBits, flags));
  }
  if (wanted.has(Attributes::kTimes)) {
    note(::utimensat(AT_FDCWD, path.c_str(), times_of(wanted).data(), flags));
  }
  if (wanted.has(Attributes::kOwner)) {
    note(::fchownat(AT_FDCWD, path.c_str(), wanted.uid, wanted.gid, flags));
  }
  return error;
}

std::string LongNames::of(std::string_view name, const struct stat& file) {
  const auto look_up = [this](Owner& owner, uint32_t id, auto find) {
    if (owner.name.empty() || owner.id != id) {
      owner.id = id;
      owner.name = (accounts_.*find)(id);
      if (owner.name.empty()) {
        owner.name = base::cat(id);
      }
    }
  };
  look_up(user_, file.st_uid, &Accounts::name_of);
  look_up(group_, file.st_gid, &Accounts::group_name_of);
  constexpr size_t kLinksWidth = 3;
  constexpr size_t kOwnerWidth = 8;
  constexpr size_t kSizeWidth = 8;
  return base::cat(
      mode_text(file.st_mode), " ", padded(base::cat(file.st_nlink), kLinksWidth, true), " ",
      padded(user_.name, kOwnerWidth, false), " ", padded(group_.name, kOwnerWidth, false), " ",
      padded(base::cat(file.st_size), kSizeWidth, true), " ", time_text(file.st_mtime), " ", name);
}

}  // namespace agent::sftp
