#include "image/layer_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "base/sys.h"

namespace image {
namespace {

namespace sys = base::sys;

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kWhiteoutMeta = ".wh..wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::string_view kCapability = "security.capability";
constexpr size_t kDepthMax = 256;      // each level of a parent path holds a descriptor
constexpr int kLinksFollowedMax = 40;  // the kernel's own bound
constexpr size_t kPathShownMax = 200;
constexpr mode_t kModeMask = 07777;
constexpr mode_t kImpliedFolderMode = 0755;
// Capability records: revision 2, and revision 3 that adds the root id of a user namespace.
constexpr size_t kCapabilityV2Bytes = 20;
constexpr size_t kCapabilityV3Bytes = 24;
constexpr char kCapabilityV2 = 2;

// A path in a message: what an image wrote may be long or no text at all.
std::string shown(std::string_view path) {
  std::string out;
  for (const char c : path.substr(0, kPathShownMax)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return out.empty() ? "/" : out;
}

std::string join(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : cat(folder, "/", name);
}

bool is_whiteout(const struct stat& info) { return S_ISCHR(info.st_mode) && info.st_rdev == 0; }

std::deque<std::string> parts_of(std::string_view path) {
  std::deque<std::string> parts;
  for (const auto part : base::split(path, '/')) {
    if (!part.empty() && part != ".") {
      parts.emplace_back(part);
    }
  }
  return parts;
}

template <typename Set>
void erase_beneath(Set& set, const std::string& path) {
  set.erase(path);
  const auto begin = set.lower_bound(path + "/");
  set.erase(begin, set.lower_bound(path + "0"));  // '0' is the byte behind '/'
}

Result<void> check_ids(const Entry& entry) {
  for (const auto& [what, id] : {std::pair{"uid", entry.uid}, std::pair{"gid", entry.gid}}) {
    if (id < 0 || id > kIdMax) {
      return fail_image(kInvalid, "file ", shown(entry.path), " belongs to ", what, " ", id,
                        "; a sandbox has ids up to ", kIdMax, ": change its owner in the image");
    }
  }
  return {};
}

// The attributes an image may set: file capabilities and user.*, never overlayfs's own.
Result<void> set_attributes(int fd, const Entry& entry) {
  for (const auto& [name, value] : entry.attributes) {
    const bool is_capability = name == kCapability;
    if (!is_capability && (!name.starts_with("user.") || name.starts_with("user.overlay."))) {
      continue;
    }
    std::string bytes = value;
    if (is_capability && bytes.size() == kCapabilityV3Bytes) {
      bytes.resize(kCapabilityV2Bytes);
      bytes[3] = kCapabilityV2;
    }
    if (::fsetxattr(fd, name.c_str(), bytes.data(), bytes.size(), 0) != 0 && errno != EOPNOTSUPP) {
      return fail_image(kInvalid, "file ", shown(entry.path), ": attribute ", shown(name),
                        " cannot be set: ", ::strerror(errno));
    }
  }
  return {};
}

Result<void> set_owner_and_mode(int fd, const Entry& entry) {
  // The owner first: changing it takes setuid bits away.
  if (::fchown(fd, static_cast<uid_t>(entry.uid), static_cast<gid_t>(entry.gid)) != 0 ||
      ::fchmod(fd, entry.mode & kModeMask) != 0) {
    return base::fail_errno(errno, "owner and mode of ", shown(entry.path));
  }
  return set_attributes(fd, entry);
}

}  // namespace

Result<std::string> clean_path(std::string_view path) {
  std::string out;
  size_t depth = 0;
  for (const auto part : base::split(path, '/')) {
    if (part.empty() || part == ".") {
      continue;
    }
    if (part == "..") {
      return fail_image(kInvalid, "entry ", shown(path), " leaves the layer by \"..\"");
    }
    if (part.size() > NAME_MAX || ++depth > kDepthMax) {
      return fail_image(kInvalid, "entry ", shown(path),
                        " has a name that is too long or too deep");
    }
    out += cat(out.empty() ? "" : "/", part);
  }
  if (out.size() >= PATH_MAX) {
    return fail_image(kInvalid, "entry ", shown(path), " has a path of more than ", PATH_MAX - 1,
                      " bytes");
  }
  if (out.contains('\0')) {
    return fail_image(kInvalid, "entry ", shown(path), " has a NUL in its name");
  }
  return out;
}

Result<void> LayerWriter::charge(int64_t bytes, const std::string& path) {
  if (bytes < 0 || bytes > budget_.bytes_max) {
    return fail_image(kInvalid, "the image is larger than allowed once unpacked, at ", shown(path));
  }
  budget_.bytes_max -= bytes;
  bytes_ += bytes;
  return {};
}

Result<void> LayerWriter::place(const Entry& entry, Content& content) {
  if (--budget_.entries_max < 0) {
    return fail_image(kInvalid, "the image has more entries than allowed");
  }
  ASSIGN_OR_RETURN(const std::string path, clean_path(entry.path));
  if (path.empty()) {
    return place_root(entry);
  }
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  ASSIGN_OR_RETURN(const Parent parent,
                   open_parent(slash == std::string::npos ? "" : path.substr(0, slash)));
  if (name == kOpaque) {
    opaque_.insert(parent.path);
    return {};
  }
  if (name.starts_with(kWhiteoutMeta)) {
    return {};  // bookkeeping of aufs that some old images still carry
  }
  if (name.starts_with(kWhiteout)) {
    const std::string hidden = name.substr(kWhiteout.size());
    if (hidden.empty() || hidden == "." || hidden == "..") {
      return fail_image(kInvalid, "entry ", shown(path), " is no valid whiteout");
    }
    return place_whiteout(parent, hidden);
  }
  switch (entry.kind) {
    case EntryKind::device:
      ++devices_dropped_;
      return {};
    case EntryKind::folder:
      return place_folder(parent, name, entry);
    case EntryKind::file:
      return place_file(parent, name, entry, content);
    case EntryKind::hardlink:
      return place_hardlink(parent, name, entry);
    case EntryKind::symlink:
    case EntryKind::fifo:
      return place_special(parent, name, entry);
  }
  return {};
}

Result<LayerWriter::Parent> LayerWriter::open_parent(const std::string& path) {
  auto folder = sys::open_beneath(root_.get(), path.empty() ? "." : path, O_PATH | O_DIRECTORY);
  if (folder) {
    return Parent{std::move(*folder), path};
  }
  return walk(path);
}

// Step by step from the root; links are expanded by hand, so that nothing outside is ever looked
// at. What is missing is made, as tar programs do.
Result<LayerWriter::Parent> LayerWriter::walk(const std::string& path) {
  struct Level {
    Fd folder;
    std::string path;
  };
  std::vector<Level> levels;
  ASSIGN_OR_RETURN(Fd root, sys::open_at(root_.get(), ".", O_PATH | O_DIRECTORY));
  levels.push_back({std::move(root), ""});
  auto parts = parts_of(path);
  int links = 0;
  while (!parts.empty()) {
    const std::string name = std::move(parts.front());
    parts.pop_front();
    if (name == "..") {  // of a link's target; above the root is the root
      if (levels.size() > 1) {
        levels.pop_back();
      }
      continue;
    }
    const int folder = levels.back().folder.get();
    struct stat info{};
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode)) {
      char target[PATH_MAX];
      const ssize_t size = ::readlinkat(folder, name.c_str(), target, sizeof target);
      if (size < 0 || ++links > kLinksFollowedMax) {
        return fail_image(kInvalid, "path ", shown(path), " goes through too many links");
      }
      const std::string_view text(target, static_cast<size_t>(size));
      if (text.starts_with('/')) {
        levels.erase(levels.begin() + 1, levels.end());
      }
      auto expanded = parts_of(text);
      parts.insert(parts.begin(), expanded.begin(), expanded.end());
      continue;
    }
    if (levels.size() > kDepthMax || name.size() > NAME_MAX) {
      return fail_image(kInvalid, "path ", shown(path), " is too deep");
    }
    std::string full = join(levels.back().path, name);
    ASSIGN_OR_RETURN(Fd next, enter_or_make(folder, name, full));
    levels.push_back({std::move(next), std::move(full)});
  }
  return Parent{std::move(levels.back().folder), std::move(levels.back().path)};
}

Result<Fd> LayerWriter::enter_or_make(int folder, const std::string& name,
                                      const std::string& path) {
  struct stat info{};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(info.st_mode)) {
      return sys::open_at(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    }
    // The later entry needs a folder here; what a whiteout hides stays hidden.
    if (::unlinkat(folder, name.c_str(), 0) != 0) {
      return base::fail_errno(errno, "replace ", shown(path));
    }
    if (is_whiteout(info)) {
      opaque_.insert(path);
    }
  }
  if (::mkdirat(folder, name.c_str(), kImpliedFolderMode) != 0) {
    return base::fail_errno(errno, "make folder ", shown(path));
  }
  implied_.insert(path);
  return sys::open_at(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

// Makes room for a new entry. A folder stays where the new entry is a folder too.
Result<void> LayerWriter::clear_name(const Parent& parent, const std::string& name,
                                     bool keep_folder) {
  struct stat info{};
  if (::fstatat(parent.folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return {};
  }
  const std::string path = join(parent.path, name);
  if (S_ISDIR(info.st_mode)) {
    if (keep_folder) {
      return {};
    }
    erase_beneath(opaque_, path);
    erase_beneath(implied_, path);
    erase_beneath(folder_times_, path);
    return sys::remove_tree(cat("/proc/self/fd/", parent.folder.get(), "/", name));
  }
  if (::unlinkat(parent.folder.get(), name.c_str(), 0) != 0) {
    return base::fail_errno(errno, "replace ", shown(path));
  }
  if (keep_folder && is_whiteout(info)) {
    opaque_.insert(path);
  }
  return {};
}

// Hides what lower layers have; what this layer placed under the name, before or after, stays.
Result<void> LayerWriter::place_whiteout(const Parent& parent, const std::string& hidden) {
  struct stat info{};
  if (::fstatat(parent.folder.get(), hidden.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(info.st_mode)) {
      opaque_.insert(join(parent.path, hidden));
    }
    return {};
  }
  if (::mknodat(parent.folder.get(), hidden.c_str(), S_IFCHR, makedev(0, 0)) != 0) {
    return base::fail_errno(errno, "whiteout of ", shown(join(parent.path, hidden)));
  }
  return {};
}

Result<void> LayerWriter::place_root(const Entry& entry) {
  if (entry.kind != EntryKind::folder) {
    return fail_image(kInvalid, "an entry that is no folder has no name");
  }
  RETURN_IF_ERROR(check_ids(entry));
  folder_times_[""] = entry.modified;
  return set_owner_and_mode(root_.get(), entry);
}

Result<void> LayerWriter::place_folder(const Parent& parent, const std::string& name,
                                       const Entry& entry) {
  RETURN_IF_ERROR(check_ids(entry));
  RETURN_IF_ERROR(clear_name(parent, name, true));
  if (::mkdirat(parent.folder.get(), name.c_str(), kImpliedFolderMode) != 0 && errno != EEXIST) {
    return base::fail_errno(errno, "make folder ", shown(entry.path));
  }
  ASSIGN_OR_RETURN(const Fd folder,
                   sys::open_at(parent.folder.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  folder_times_[join(parent.path, name)] = entry.modified;
  implied_.erase(join(parent.path, name));
  return set_owner_and_mode(folder.get(), entry);
}

Result<void> LayerWriter::place_file(const Parent& parent, const std::string& name,
                                     const Entry& entry, Content& content) {
  RETURN_IF_ERROR(check_ids(entry));
  RETURN_IF_ERROR(charge(entry.size, entry.path));
  RETURN_IF_ERROR(clear_name(parent, name, false));
  ASSIGN_OR_RETURN(const Fd file,
                   sys::open_at(parent.folder.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                                S_IRUSR | S_IWUSR));
  RETURN_IF_ERROR(write_content(file.get(), entry, content));
  RETURN_IF_ERROR(set_owner_and_mode(file.get(), entry));
  const timespec times[2] = {entry.modified, entry.modified};
  ::futimens(file.get(), times);  // a time the file system cannot hold is not worth a failure
  return {};
}

Result<void> LayerWriter::write_content(int fd, const Entry& entry, Content& content) {
  int64_t end = 0;
  while (true) {
    ASSIGN_OR_RETURN(const auto piece, content.next());
    if (!piece) {
      break;
    }
    const auto size = static_cast<int64_t>(piece->bytes.size());
    if (piece->offset < end || piece->offset > entry.size || size > entry.size - piece->offset) {
      return fail_image(kInvalid, "the content of ", shown(entry.path), " is not as its size says");
    }
    end = piece->offset + size;
    if (::lseek(fd, piece->offset, SEEK_SET) < 0) {
      return base::fail_errno(errno, "write ", shown(entry.path));
    }
    RETURN_IF_ERROR(base::with_context(sys::write_all(fd, piece->bytes), shown(entry.path)));
  }
  if (end < entry.size && ::ftruncate(fd, entry.size) != 0) {
    return base::fail_errno(errno, "write ", shown(entry.path));
  }
  return {};
}

Result<void> LayerWriter::place_hardlink(const Parent& parent, const std::string& name,
                                         const Entry& entry) {
  ASSIGN_OR_RETURN(const std::string target, clean_path(entry.target));
  const size_t slash = target.rfind('/');
  const std::string target_name = slash == std::string::npos ? target : target.substr(slash + 1);
  ASSIGN_OR_RETURN(const Parent from,
                   open_parent(slash == std::string::npos ? "" : target.substr(0, slash)));
  struct stat info{};
  if (target.empty() ||
      ::fstatat(from.folder.get(), target_name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      S_ISDIR(info.st_mode) || is_whiteout(info)) {
    return fail_image(kInvalid, "hard link ", shown(entry.path), " points to ", shown(entry.target),
                      ", which is no file of the same layer");
  }
  if (from.path == parent.path && target_name == name) {
    return {};
  }
  RETURN_IF_ERROR(clear_name(parent, name, false));
  if (::linkat(from.folder.get(), target_name.c_str(), parent.folder.get(), name.c_str(), 0) != 0) {
    return fail_image(kInvalid, "hard link ", shown(entry.path), " to ", shown(entry.target), ": ",
                      ::strerror(errno));
  }
  return {};
}

Result<void> LayerWriter::place_special(const Parent& parent, const std::string& name,
                                        const Entry& entry) {
  RETURN_IF_ERROR(check_ids(entry));
  RETURN_IF_ERROR(clear_name(parent, name, false));
  const bool is_link = entry.kind == EntryKind::symlink;
  if (is_link &&
      (entry.target.empty() || entry.target.size() >= PATH_MAX || entry.target.contains('\0'))) {
    return fail_image(kInvalid, "link ", shown(entry.path), " has no usable target");
  }
  const int folder = parent.folder.get();
  const int made = is_link ? ::symlinkat(entry.target.c_str(), folder, name.c_str())
                           : ::mknodat(folder, name.c_str(), S_IFIFO | S_IRUSR | S_IWUSR, 0);
  if (made != 0) {
    return base::fail_errno(errno, "make ", shown(entry.path));
  }
  if (::fchownat(folder, name.c_str(), static_cast<uid_t>(entry.uid), static_cast<gid_t>(entry.gid),
                 AT_SYMLINK_NOFOLLOW) != 0 ||
      (!is_link && ::fchmodat(folder, name.c_str(), entry.mode & kModeMask, 0) != 0)) {
    return base::fail_errno(errno, "owner and mode of ", shown(entry.path));
  }
  const timespec times[2] = {entry.modified, entry.modified};
  ::utimensat(folder, name.c_str(), times, AT_SYMLINK_NOFOLLOW);
  return {};
}

Result<void> LayerWriter::finish() {
  for (const auto& [path, modified] : folder_times_) {
    const auto folder =
        sys::open_beneath(root_.get(), path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    if (folder) {
      const timespec times[2] = {modified, modified};
      ::futimens(folder->get(), times);
    }
  }
  return {};
}

std::vector<std::string> LayerWriter::implied_folders() const {
  return {implied_.begin(), implied_.end()};
}

std::vector<std::string> LayerWriter::opaque_folders() const {
  return {opaque_.begin(), opaque_.end()};
}

}  // namespace image
