#include "agent/tar_source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/acting_as.h"
#include "agent/open_path.h"
#include "wire/tar_writer.h"

namespace agent {
namespace {

using wire::tar::Entry;
using wire::tar::EntryType;
using wire::tar::Part;

constexpr mode_t kPermissions = 07777;
constexpr int kOpenFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
// A hole in a smaller file saves nothing.
constexpr off_t kSparseBytesMin = off_t{64} * 1024;
constexpr off_t kStatBlockBytes = 512;  // unit of st_blocks
// More pieces than these are not worth their map; the rest goes as one.
constexpr size_t kPartsMax = size_t{32} * 1024;
constexpr size_t kAttributesMax = 128;  // of one file
constexpr size_t kAttributeBytesMax = size_t{256} * 1024;
constexpr int kLookedAtMax = 1000;  // entries a turn

Entry entry_of(const struct stat& status, std::string path, EntryType type) {
  return Entry{.path = std::move(path),
               .type = type,
               .mode = status.st_mode & kPermissions,
               .uid = status.st_uid,
               .gid = status.st_gid,
               .modified = {.seconds = status.st_mtim.tv_sec,
                            .nanoseconds = static_cast<int32_t>(status.st_mtim.tv_nsec)}};
}

// The user.* attributes, of a whole file system also file capabilities; what is gone meanwhile or
// too much is left out.
void read_attributes(int fd, bool with_capabilities, Entry& entry) {
  std::array<char, size_t{64} * 1024> names;  // XATTR_LIST_MAX
  const ssize_t size = ::flistxattr(fd, names.data(), names.size());
  size_t bytes = 0;
  for (ssize_t at = 0; at < size;) {
    const std::string name(names.data() + at);
    at += static_cast<ssize_t>(name.size()) + 1;
    const bool wanted =
        name.starts_with("user.") || (with_capabilities && name == "security.capability");
    if (!wanted || entry.attributes.size() == kAttributesMax) {
      continue;
    }
    std::array<char, size_t{64} * 1024> value;  // XATTR_SIZE_MAX
    const ssize_t length = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    bytes += length < 0 ? 0 : static_cast<size_t>(length);
    if (length < 0 || bytes > kAttributeBytesMax) {
      continue;
    }
    entry.attributes.emplace_back(name, std::string(value.data(), static_cast<size_t>(length)));
  }
}

// Where the file has data; nothing if it has no holes worth it.
std::vector<Part> find_parts(int fd, const struct stat& status) {
  std::vector<Part> parts;
  if (status.st_size < kSparseBytesMin || status.st_blocks * kStatBlockBytes >= status.st_size) {
    return parts;
  }
  off_t end = 0;
  while (end < status.st_size) {
    const off_t begin = ::lseek(fd, end, SEEK_DATA);
    if (begin < 0 || begin >= status.st_size) {
      if (begin < 0 && errno != ENXIO) {
        return {};
      }
      break;
    }
    end = parts.size() + 1 < kPartsMax ? ::lseek(fd, begin, SEEK_HOLE) : status.st_size;
    if (end < 0) {
      return {};
    }
    end = std::min(end, status.st_size);
    parts.push_back(
        {.offset = static_cast<uint64_t>(begin), .size = static_cast<uint64_t>(end - begin)});
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  if (parts.empty() || parts.back().offset + parts.back().size < size) {
    parts.push_back({.offset = size, .size = 0});  // an end in a hole is told so
  }
  return parts;
}

bool has_vanished(int errno_value) {
  return errno_value == ENOENT || errno_value == ELOOP || errno_value == ENOTDIR ||
         errno_value == ENXIO;
}

}  // namespace

Result<void> TarSource::open() {
  const ActingAs acting(request_.acting);
  ASSIGN_OR_RETURN(auto folder,
                   open_path(AT_FDCWD, request_.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
  return folders_.enter(std::move(folder), "");
}

Result<bool> TarSource::next(std::string& out) {
  const ActingAs acting(request_.acting);
  if (!began_) {
    began_ = true;
    struct stat status{};
    if (::fstat(folders_.folder(), &status) != 0) {
      return std::unexpected(file_error(errno, request_.path));
    }
    Entry root = entry_of(status, "./", EntryType::folder);
    read_attributes(folders_.folder(), request_.one_file_system, root);
    device_ = status.st_dev;
    wire::tar::append_head(out, root);
  }
  while (out.size() < kSliceBytes) {
    if (file_) {
      RETURN_IF_ERROR(add_content(out));
      continue;
    }
    if (folders_.empty()) {
      out.append(wire::tar::kEndBytes, '\0');
      return false;
    }
    const dirent* entry = folders_.next();
    if (entry == nullptr) {
      folders_.leave();
      continue;
    }
    RETURN_IF_ERROR(add(out, *entry));
  }
  return true;
}

Result<void> TarSource::add(std::string& out, const dirent& entry) {
  const char* name = static_cast<const char*>(entry.d_name);
  unsigned char type = entry.d_type;
  if (type == DT_UNKNOWN) {
    struct stat status{};
    if (::fstatat(folders_.folder(), name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
      type = IFTODT(status.st_mode);
    }
  }
  switch (type) {
    case DT_REG:
      return add_file(out, name);
    case DT_DIR:
      return add_folder(out, name);
    case DT_LNK:
      add_symlink(out, name);
      return {};
    default:
      left_something_out_ = true;
      return {};
  }
}

Result<void> TarSource::add_folder(std::string& out, const char* name) {
  base::Fd folder(::openat(folders_.folder(), name, kOpenFlags | O_DIRECTORY));
  struct stat status{};
  if (!folder || ::fstat(folder.get(), &status) != 0) {
    return has_vanished(errno) ? Result<void>{}
                               : std::unexpected(file_error(errno, folders_.path_of(name)));
  }
  Entry entry = entry_of(status, base::cat(folders_.path_of(name), "/"), EntryType::folder);
  read_attributes(folder.get(), request_.one_file_system, entry);
  wire::tar::append_head(out, entry);
  if (request_.one_file_system && status.st_dev != device_) {
    return {};
  }
  return folders_.enter(std::move(folder), name);
}

void TarSource::add_symlink(std::string& out, const char* name) {
  struct stat status{};
  std::array<char, PATH_MAX> target;
  const ssize_t size = ::readlinkat(folders_.folder(), name, target.data(), target.size());
  if (size <= 0 || ::fstatat(folders_.folder(), name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  Entry entry = entry_of(status, folders_.path_of(name), EntryType::symlink);
  entry.target.assign(target.data(), static_cast<size_t>(size));
  if (!add_hardlink(out, entry, status)) {
    wire::tar::append_head(out, entry);
  }
}

Result<void> TarSource::add_file(std::string& out, const char* name) {
  base::Fd file(::openat(folders_.folder(), name, kOpenFlags));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return has_vanished(errno) ? Result<void>{}
                               : std::unexpected(file_error(errno, folders_.path_of(name)));
  }
  if (!S_ISREG(status.st_mode)) {
    return {};  // became something else since its name was read
  }
  Entry entry = entry_of(status, folders_.path_of(name), EntryType::file);
  if (add_hardlink(out, entry, status)) {
    return {};
  }
  entry.size = static_cast<uint64_t>(status.st_size);
  read_attributes(file.get(), request_.one_file_system, entry);
  entry.parts = find_parts(file.get(), status);
  entry.is_sparse = !entry.parts.empty();
  wire::tar::append_head(out, entry);
  padding_ = wire::tar::padding(wire::tar::data_size(entry));
  parts_ = entry.is_sparse ? std::move(entry.parts) : std::vector<Part>{{0, entry.size}};
  part_ = 0;
  part_done_ = 0;
  file_ = std::move(file);
  return add_content(out);
}

bool TarSource::add_hardlink(std::string& out, Entry& entry, const struct stat& status) {
  if (status.st_nlink < 2) {
    return false;
  }
  const std::pair key(status.st_dev, status.st_ino);
  const auto found = links_.find(key);
  if (found == links_.end()) {
    if (links_.size() < kLinksMax) {
      links_.emplace(key, Link{.path = entry.path, .left = status.st_nlink - 1});
    }
    return false;
  }
  Entry link = std::move(entry);
  link.type = EntryType::hardlink;
  link.target = found->second.path;
  wire::tar::append_head(out, link);
  if (--found->second.left == 0) {
    links_.erase(found);
  }
  return true;
}

// What was announced is written, whatever the file does meanwhile.
Result<void> TarSource::add_content(std::string& out) {
  while (part_ < parts_.size()) {
    const Part& part = parts_[part_];
    if (part_done_ == part.size) {
      ++part_;
      part_done_ = 0;
      continue;
    }
    if (out.size() >= kSliceBytes) {
      return {};
    }
    const size_t begin = out.size();
    const auto wanted =
        static_cast<size_t>(std::min<uint64_t>(part.size - part_done_, kSliceBytes - begin));
    ssize_t count = 0;
    out.resize_and_overwrite(begin + wanted, [&](char* data, size_t) {
      count =
          ::pread(file_.get(), data + begin, wanted, static_cast<off_t>(part.offset + part_done_));
      return begin + static_cast<size_t>(std::max<ssize_t>(count, 0));
    });
    if (count < 0 && errno != EINTR) {
      return std::unexpected(file_error(errno, folders_.path()));
    }
    if (count == 0) {
      out.append(wanted, '\0');  // it shrank
      count = static_cast<ssize_t>(wanted);
    }
    part_done_ += static_cast<uint64_t>(std::max<ssize_t>(count, 0));
  }
  out.append(padding_, '\0');
  file_.reset();
  return {};
}

Result<bool> ReadableTree::next() {
  const ActingAs acting(request_.acting);
  if (!begun_) {
    begun_ = true;
    ASSIGN_OR_RETURN(auto folder,
                     open_path(AT_FDCWD, request_.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
    RETURN_IF_ERROR(folders_.enter(std::move(folder), ""));
  }
  for (int i = 0; i < kLookedAtMax && !folders_.empty(); ++i) {
    const dirent* entry = folders_.next();
    if (entry == nullptr) {
      folders_.leave();
      continue;
    }
    const char* name = static_cast<const char*>(entry->d_name);
    if (entry->d_type == DT_DIR) {
      const auto entered = folders_.enter(name);
      if (!entered && entered.error().code != ErrorCode::file_not_found) {
        return std::unexpected(entered.error());
      }
    } else if (entry->d_type == DT_REG &&
               ::faccessat(folders_.folder(), name, R_OK, AT_EACCESS) != 0 && errno == EACCES) {
      return std::unexpected(file_error(errno, folders_.path_of(name)));
    }
  }
  return !folders_.empty();
}

}  // namespace agent
