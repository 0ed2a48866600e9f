#include "image/folder_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/sys.h"
#include "image/digest.h"

namespace image {
namespace {

namespace sys = base::sys;

constexpr int kDepthMax = 200;  // each level holds a descriptor
constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kAttributeListBytes = 64 << 10;  // the kernel's bound

// One file's bytes, which are hashed on the way.
class FileContent final : public Content {
 public:
  FileContent(int fd, Sha256& hash) : fd_(fd), hash_(hash) {}
  Result<std::optional<Piece>> next() override {
    const ssize_t count = fd_ < 0 ? 0 : ::read(fd_, buffer_.data(), buffer_.size());
    if (count < 0) {
      return base::fail_errno(errno, "read the folder to import");
    }
    if (count == 0) {
      return std::nullopt;
    }
    const std::string_view bytes(buffer_.data(), static_cast<size_t>(count));
    hash_.update(bytes);
    const Piece piece{offset_, bytes};
    offset_ += count;
    return piece;
  }

 private:
  int fd_;
  Sha256& hash_;
  int64_t offset_ = 0;
  std::array<char, kReadBytes> buffer_;
};

class Copy {
 public:
  explicit Copy(LayerWriter& writer) : writer_(writer) {}

  Result<std::string> run(int source) {
    struct stat info{};
    if (::fstat(source, &info) != 0) {
      return base::fail_errno(errno, "stat the folder to import");
    }
    device_ = info.st_dev;
    RETURN_IF_ERROR(place(source, "", "", info));
    RETURN_IF_ERROR(folder(source, "", 0));
    RETURN_IF_ERROR(writer_.finish());
    return hash_.finish();
  }

 private:
  Result<void> folder(int at, const std::string& path, int depth) {
    if (depth > kDepthMax) {
      return fail_image(kInvalid, "folder ", path, " is too deep");
    }
    ASSIGN_OR_RETURN(auto names, sys::list_folder(cat("/proc/self/fd/", at)));
    std::ranges::sort(names);
    for (const auto& name : names) {
      struct stat info{};
      if (::fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return base::fail_errno(errno, "stat ", path, "/", name);
      }
      const std::string full = path.empty() ? name : cat(path, "/", name);
      RETURN_IF_ERROR(place(at, name, full, info));
      if (S_ISDIR(info.st_mode) && info.st_dev == device_) {
        ASSIGN_OR_RETURN(const Fd next,
                         sys::open_at(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
        RETURN_IF_ERROR(folder(next.get(), full, depth + 1));
      }
    }
    return {};
  }

  // `name` is "" for the root itself.
  Result<void> place(int at, const std::string& name, const std::string& path,
                     const struct stat& info) {
    Entry entry{.path = path.empty() ? "." : path,
                .kind = EntryKind::device,
                .mode = info.st_mode & 07777,
                .uid = info.st_uid,
                .gid = info.st_gid,
                .modified = info.st_mtim};
    Fd opened;
    if (S_ISDIR(info.st_mode)) {
      entry.kind = EntryKind::folder;
    } else if (S_ISFIFO(info.st_mode)) {
      entry.kind = EntryKind::fifo;
    } else if (S_ISLNK(info.st_mode)) {
      entry.kind = EntryKind::symlink;
      char target[PATH_MAX];
      const ssize_t size = ::readlinkat(at, name.c_str(), target, sizeof target);
      entry.target.assign(target, static_cast<size_t>(std::max<ssize_t>(size, 0)));
    } else if (S_ISREG(info.st_mode)) {
      const auto seen = links_.find({info.st_ino, path_key(info)});
      entry.kind = seen == links_.end() ? EntryKind::file : EntryKind::hardlink;
      if (seen != links_.end()) {
        entry.target = seen->second;
      } else {
        entry.size = info.st_size;
        ASSIGN_OR_RETURN(opened, sys::open_at(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
        if (info.st_nlink > 1) {
          links_[{info.st_ino, path_key(info)}] = path;
        }
      }
    }
    if (opened || S_ISDIR(info.st_mode)) {
      read_attributes(cat("/proc/self/fd/", opened ? opened.get() : at,
                          opened || name.empty() ? "" : "/", opened ? "" : name),
                      entry);
    }
    hash_entry(entry);
    FileContent content(opened.get(), hash_);
    return writer_.place(entry, content);
  }

  static uint64_t path_key(const struct stat& info) { return info.st_dev; }

  static void read_attributes(const std::string& path, Entry& entry) {
    std::string names(kAttributeListBytes, '\0');
    const ssize_t size = ::listxattr(path.c_str(), names.data(), names.size());
    if (size <= 0) {
      return;
    }
    names.resize(static_cast<size_t>(size));
    for (const auto name : base::split(names, '\0')) {
      std::string value(kAttributeListBytes, '\0');
      const std::string name_text(name);
      const ssize_t bytes =
          name.empty() ? -1
                       : ::getxattr(path.c_str(), name_text.c_str(), value.data(), value.size());
      if (bytes >= 0) {
        value.resize(static_cast<size_t>(bytes));
        entry.attributes.emplace_back(name_text, std::move(value));
      }
    }
    std::ranges::sort(entry.attributes);
  }

  void hash_entry(const Entry& entry) {
    std::string head =
        cat(entry.path, '\0', static_cast<int>(entry.kind), ' ', entry.mode, ' ', entry.uid, ' ',
            entry.gid, ' ', entry.size, ' ', entry.modified.tv_sec, ' ', entry.target, '\0');
    for (const auto& [name, value] : entry.attributes) {
      head += cat(name, '\0', value.size(), ' ', value);
    }
    hash_.update(head);
  }

  LayerWriter& writer_;
  Sha256 hash_;
  dev_t device_ = 0;
  std::map<std::pair<ino_t, uint64_t>, std::string> links_;
};

}  // namespace

Result<std::string> copy_folder(int source, LayerWriter& writer) {
  return Copy(writer).run(source);
}

}  // namespace image
