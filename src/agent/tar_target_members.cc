// The members that a TarTarget lays out: files, links, and what is refused.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/tar_target.h"

namespace agent {
namespace {

using wire::tar::Entry;
using wire::tar::EntryType;

constexpr mode_t kSetId = 06000;
constexpr size_t kPlacedMax = 100;
constexpr size_t kPlacedBytesMax = size_t{16} * 1024;

// Why a member's name may not be used; "" if it may.
std::string_view clean_member(std::string_view path, std::string& out) {
  if (path.starts_with('/')) {
    return "its name is absolute";
  }
  for (const std::string_view part : base::split(path, '/')) {
    if (part.empty() || part == ".") {
      continue;
    }
    if (part == "..") {
      return "its name has a part \"..\"";
    }
    if (part.size() > NAME_MAX) {
      return "a part of its name is longer than 255 bytes";
    }
    out += out.empty() ? "" : "/";
    out += part;
  }
  return out.size() < PATH_MAX ? "" : "its name is longer than 4,095 bytes";
}

int link_unnamed(int file, int folder, const std::string& name) {
  if (::linkat(file, "", folder, name.c_str(), AT_EMPTY_PATH) == 0) {
    return 0;
  }
  if (errno != ENOENT) {
    return -1;
  }
  // Older kernels ask for a capability over the host there.
  const std::string path = base::cat("/proc/self/fd/", file);
  return ::linkat(AT_FDCWD, path.c_str(), folder, name.c_str(), AT_SYMLINK_FOLLOW);
}

}  // namespace

// --- Members ------------------------------------------------------------------------------------

Result<void> TarTarget::begin(const Entry& entry) {
  std::string path;
  const std::string_view reason = clean_member(entry.path, path);
  member_ = reason.empty() ? path : entry.path;
  if (!reason.empty()) {
    return refused(reason);
  }
  if (path.empty() && entry.type != EntryType::folder) {
    member_ = entry.path;
    return refused("it is the target itself but no folder");
  }
  // A new folder is whole once another member lies elsewhere, or would take its place.
  const bool takes_place = stage_ && path == stage_->name && entry.type != EntryType::folder;
  if (stage_ && (takes_place || !is_beneath(path, stage_->name))) {
    RETURN_IF_ERROR(finish_new_folder());
  }
  switch (entry.type) {
    case EntryType::folder:
      return place_folder(entry);
    case EntryType::file:
      return open_file(entry);
    case EntryType::symlink:
      return place_symlink(entry);
    case EntryType::hardlink:
      return place_hardlink(entry);
    case EntryType::character_device:
    case EntryType::block_device:
    case EntryType::fifo:
      break;
  }
  return refused("it is a device or a pipe");
}

void TarTarget::note_placed() {
  if (placed_count_ < kPlacedMax && placed_.size() + member_.size() < kPlacedBytesMax) {
    placed_ += base::cat(placed_.empty() ? "" : "\n", member_);
    ++placed_count_;
  }
}

// Splits the current member's path: its folder in folder_, its name in name_.
Result<void> TarTarget::find_place() {
  ASSIGN_OR_RETURN(folder_, parent_of(member_));
  name_ = member_.substr(member_.rfind('/') + 1);
  return {};
}

const std::string& TarTarget::actual_name() const {
  return stage_ && member_ == stage_->name ? stage_->temporary : name_;
}

// A folder that is there keeps its mode, owner and time.
Result<void> TarTarget::place_folder(const Entry& entry) {
  const LateFolder late{.path = member_,
                        .mode = entry.mode,
                        .modified = entry.modified,
                        .uid = entry.uid,
                        .gid = entry.gid};
  if (member_.empty()) {
    if (root_stage_ && !late_.empty() && late_.front().path.empty()) {
      late_.front() = late;
    }
    return {};
  }
  RETURN_IF_ERROR(find_place());
  struct stat status{};
  if (::fstatat(folder_, actual_name().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISDIR(status.st_mode)) {
      // A link to a folder of the target stays; any other thing is in the way.
      const auto linked = open_beneath(member_, O_PATH | O_DIRECTORY);
      if (!linked) {
        const bool dangles = linked.error().code == ErrorCode::file_not_found;
        return dangles ? failed(ENOTDIR) : std::unexpected(linked.error());
      }
    }
    return {};
  }
  RETURN_IF_ERROR(make_folder(member_, late));
  if (!entry.attributes.empty()) {
    ASSIGN_OR_RETURN(const base::Fd folder, open_beneath(member_, O_RDONLY | O_DIRECTORY));
    RETURN_IF_ERROR(set_attributes(folder.get(), entry));
  }
  note_placed();
  return {};
}

Result<void> TarTarget::place_symlink(const Entry& entry) {
  if (entry.target.empty() || entry.target.size() >= PATH_MAX) {
    return refused("its target is empty or longer than 4,095 bytes");
  }
  RETURN_IF_ERROR(find_place());
  std::string name = name_;
  if (::symlinkat(entry.target.c_str(), folder_, name.c_str()) != 0) {
    if (errno != EEXIST) {
      return failed(errno);
    }
    RETURN_IF_ERROR(check_replaceable());
    name = temporary_name();
    if (::symlinkat(entry.target.c_str(), folder_, name.c_str()) != 0) {
      return failed(errno);
    }
  }
  const auto times = file_times(entry.modified);
  ::utimensat(folder_, name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  if (request_.preserve_owner &&
      ::fchownat(folder_, name.c_str(), static_cast<uid_t>(entry.uid),
                 static_cast<gid_t>(entry.gid), AT_SYMLINK_NOFOLLOW) != 0) {
    return failed(errno);
  }
  if (name != name_) {
    RETURN_IF_ERROR(replace_by(name));
  }
  ++counts_.links;
  note_placed();
  return {};
}

Result<void> TarTarget::place_hardlink(const Entry& entry) {
  std::string target;
  const std::string_view reason = clean_member(entry.target, target);
  if (!reason.empty() || target.empty()) {
    return refused(base::cat("of the file that it links to: ",
                             target.empty() && reason.empty() ? "there is no name" : reason));
  }
  constexpr std::string_view kNothing = "there is no file that it could link to";
  const size_t slash = target.rfind('/');
  const auto target_folder =
      open_beneath(slash == std::string::npos ? "" : target.substr(0, slash), O_PATH | O_DIRECTORY);
  if (!target_folder) {
    const bool is_missing = target_folder.error().code == ErrorCode::file_not_found;
    return is_missing ? refused(kNothing) : std::unexpected(target_folder.error());
  }
  const std::string target_name = target.substr(slash == std::string::npos ? 0 : slash + 1);
  RETURN_IF_ERROR(find_place());
  const auto link_to = [&](const std::string& name) {
    return ::linkat(target_folder->get(), target_name.c_str(), folder_, name.c_str(), 0);
  };
  if (link_to(name_) != 0) {
    if (errno == ENOENT) {
      return refused(kNothing);
    }
    if (errno != EEXIST) {
      return failed(errno);
    }
    RETURN_IF_ERROR(check_replaceable());
    const std::string temporary = temporary_name();
    if (link_to(temporary) != 0) {
      return errno == ENOENT ? refused(kNothing) : failed(errno);
    }
    RETURN_IF_ERROR(replace_by(temporary));
    // Two names of one file: renaming does nothing then.
    ::unlinkat(folder_, temporary.c_str(), 0);
  }
  ++counts_.links;
  note_placed();
  return {};
}

// --- Files --------------------------------------------------------------------------------------

Result<void> TarTarget::open_file(const Entry& entry) {
  RETURN_IF_ERROR(find_place());
  mode_ = allowed_mode(entry.mode);
  // Set-user-id is for the whole file only.
  const mode_t mode = mode_ & ~kSetId;
  constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
  if (is_staged(member_)) {
    naming_ = Naming::direct;
    file_ = base::Fd(::openat(folder_, name_.c_str(), kFlags | O_CREAT | O_EXCL, mode));
    if (file_ && may_hand_over(entry)) {
      small_file_ = {.file = std::move(file_),
                     .member = member_,
                     .times = file_times(entry.modified),
                     .bytes = {}};
      small_file_->bytes.reserve(entry.size);
      return {};
    }
    if (file_ || errno != EEXIST) {
      return file_ ? Result<void>{} : failed(errno);
    }
  }
  naming_ = Naming::unnamed;
  file_ = base::Fd(::openat(folder_, ".", O_WRONLY | O_CLOEXEC | O_TMPFILE, mode));
  if (!file_ && (errno == EOPNOTSUPP || errno == EISDIR)) {
    naming_ = Naming::temporary;
    temporary_ = temporary_name();
    file_ = base::Fd(::openat(folder_, temporary_.c_str(), kFlags | O_CREAT | O_EXCL, mode));
  }
  return file_ ? Result<void>{} : failed(errno);
}

Result<void> TarTarget::write(uint64_t offset, std::string_view bytes) {
  counts_.bytes += bytes.size();
  if (small_file_) {
    small_file_->bytes += bytes;  // whole files come in their order
    return {};
  }
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return failed(errno);
    }
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<size_t>(count);
  }
  return {};
}

Result<void> TarTarget::end(const Entry& entry) {
  if (small_file_) {
    return end_small_file();
  }
  if (!file_) {
    return {};
  }
  const int file = file_.get();
  if (entry.is_sparse && ::ftruncate(file, static_cast<off_t>(entry.size)) != 0) {
    return failed(errno);
  }
  RETURN_IF_ERROR(set_attributes(file, entry));
  RETURN_IF_ERROR(set_owner(file, entry.uid, entry.gid));
  const auto times = file_times(entry.modified);
  if (((mode_ & kSetId) != 0 && ::fchmod(file, mode_) != 0) ||
      ::futimens(file, times.data()) != 0) {
    return failed(errno);
  }
  RETURN_IF_ERROR(name_file());
  file_.reset();
  ++counts_.files;
  note_placed();
  return {};
}

// --- Small files --------------------------------------------------------------------------------

bool TarTarget::may_hand_over(const Entry& entry) const {
  return entry.size <= SmallFiles::kBytesMax && !entry.is_sparse && entry.attributes.empty() &&
         (mode_ & kSetId) == 0 && !request_.preserve_owner;
}

Result<void> TarTarget::end_small_file() {
  if (small_files_.has_failed()) {
    return wait_for_small_files();
  }
  SmallFile file = *std::exchange(small_file_, std::nullopt);
  if (small_files_.add(file)) {
    return {};
  }
  if (const int reason = SmallFiles::write(file); reason != 0) {
    remove_unwritten(file);
    return failed(reason);
  }
  ++counts_.files;
  note_placed();
  return {};
}

Result<void> TarTarget::wait_for_small_files() {
  SmallFiles::Outcome outcome = small_files_.wait();
  counts_.files += outcome.written_count;
  const std::string member = member_;
  for (std::string& written : outcome.written) {
    member_ = std::move(written);
    note_placed();
  }
  member_ = member;
  if (small_file_ && outcome.errno_value != 0) {
    outcome.unwritten.push_back(*std::exchange(small_file_, std::nullopt));
  }
  for (const SmallFile& file : outcome.unwritten) {
    remove_unwritten(file);
  }
  if (outcome.errno_value != 0) {
    member_ = outcome.unwritten.front().member;
    return failed(outcome.errno_value);
  }
  return {};
}

// Unless another member has its name by now.
void TarTarget::remove_unwritten(const SmallFile& file) {
  const size_t slash = file.member.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : file.member.substr(0, slash);
  const std::string name = file.member.substr(slash == std::string::npos ? 0 : slash + 1);
  const auto folder = open_beneath(parent, O_PATH | O_DIRECTORY);
  struct stat made{};
  struct stat named{};
  if (folder && ::fstat(file.file.get(), &made) == 0 &&
      ::fstatat(folder->get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
      made.st_ino == named.st_ino && made.st_dev == named.st_dev) {
    ::unlinkat(folder->get(), name.c_str(), 0);
  }
}

// The file is whole: now it gets its name.
Result<void> TarTarget::name_file() {
  if (naming_ == Naming::direct) {
    return {};
  }
  if (naming_ == Naming::unnamed) {
    if (link_unnamed(file_.get(), folder_, name_) == 0) {
      return {};
    }
    if (errno != EEXIST) {
      return failed(errno);
    }
  } else if (::renameat2(folder_, temporary_.c_str(), folder_, name_.c_str(), RENAME_NOREPLACE) ==
             0) {
    return {};
  } else if (errno != EEXIST) {
    return failed(errno);
  }
  ASSIGN_OR_RETURN(const struct stat old, check_replaceable());
  // Overwriting keeps the owner; another user than root owns what it makes, as with tar.
  const bool is_other = old.st_uid != request_.acting.uid || old.st_gid != request_.acting.gid;
  if (request_.acting.uid == 0 && is_other && !request_.preserve_owner && S_ISREG(old.st_mode) &&
      (::fchown(file_.get(), old.st_uid, old.st_gid) != 0 || ::fchmod(file_.get(), mode_) != 0)) {
    return failed(errno);
  }
  if (naming_ == Naming::unnamed) {
    temporary_ = temporary_name();
    if (link_unnamed(file_.get(), folder_, temporary_) != 0) {
      return failed(errno);
    }
    naming_ = Naming::temporary;
  }
  return replace_by(temporary_);
}

Result<void> TarTarget::replace_by(const std::string& temporary) {
  if (::renameat(folder_, temporary.c_str(), folder_, name_.c_str()) == 0) {
    return {};
  }
  const int reason = errno;
  ::unlinkat(folder_, temporary.c_str(), 0);
  return failed(reason);
}

// What the member's name stands for now may give way to something that is no folder.
Result<struct stat> TarTarget::check_replaceable() const {
  struct stat status{};
  if (::fstatat(folder_, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Result<struct stat>(status) : failed(errno);
  }
  if (S_ISDIR(status.st_mode)) {
    return failed(EISDIR);
  }
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
    return failed(ENXIO);
  }
  return status;
}

Result<void> TarTarget::set_attributes(int fd, const Entry& entry) const {
  for (const auto& [name, value] : entry.attributes) {
    if (!name.starts_with("user.") || name.starts_with("user.overlay.")) {
      continue;
    }
    if (::fsetxattr(fd, name.c_str(), value.data(), value.size(), 0) != 0 && errno != EOPNOTSUPP) {
      return failed(errno);
    }
  }
  return {};
}

Result<void> TarTarget::set_owner(int fd, int64_t uid, int64_t gid) const {
  if (!request_.preserve_owner) {
    return {};
  }
  constexpr int64_t kIdMax = 0xFFFFFFFE;
  if (uid < 0 || gid < 0 || uid > kIdMax || gid > kIdMax) {
    return refused("its owner is no user");
  }
  if (::fchown(fd, static_cast<uid_t>(uid), static_cast<gid_t>(gid)) != 0) {
    return errno == EINVAL ? refused(base::cat("the sandbox has no user ", uid, ":", gid))
                           : failed(errno);
  }
  return {};
}

}  // namespace agent
