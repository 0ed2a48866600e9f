#include "agent/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <vector>

#include "agent/acting_as.h"
#include "agent/open_path.h"
#include "agent/run_answer.h"
#include "base/clock.h"
#include "base/log.h"
#include "wire/http1.h"

namespace agent {
namespace {

constexpr base::Milliseconds kWritePatience{600'000};
constexpr size_t kSliceBytes = 32 * 1024;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

struct Level {
  std::unique_ptr<DIR, CloseFolder> folder;
  std::string path;
};

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

std::string octal(mode_t mode) {
  constexpr mode_t kPermissions = 07777;
  std::array<char, 8> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), mode & kPermissions, 8);
  const std::string text(digits.data(), end.ptr);
  return std::string(4 - std::min<size_t>(4, text.size()), '0') + text;
}

std::string modified_at(const struct stat& status) {
  // Beyond what four digits of a year can show, the ends of the range are shown.
  constexpr int64_t kSecondsMax = 253'402'300'799;
  constexpr int64_t kMsPerSecond = 1000;
  constexpr int64_t kNsPerMs = 1'000'000;
  const int64_t seconds = std::clamp<int64_t>(status.st_mtim.tv_sec, 0, kSecondsMax);
  return base::rfc3339(base::from_ms(seconds * kMsPerSecond + status.st_mtim.tv_nsec / kNsPerMs));
}

// Walks the tree depth first; each next() call runs as the acting user and does not suspend.
class Lister {
 public:
  explicit Lister(const FileRequest& request) : request_(request) {}

  Result<void> open() {
    const ActingAs acting(request_.acting);
    ASSIGN_OR_RETURN(auto folder,
                     open_path(AT_FDCWD, request_.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
    std::string path = request_.path;
    while (path.size() > 1 && path.ends_with('/')) {
      path.pop_back();
    }
    return enter(std::move(folder), std::move(path));
  }
  // Appends entries until the slice is full; false when there are no more.
  bool next(std::string& out) {
    const ActingAs acting(request_.acting);
    while (!levels_.empty() && out.size() < kSliceBytes) {
      const dirent* entry = ::readdir(levels_.back().folder.get());
      if (entry == nullptr) {
        levels_.pop_back();
        continue;
      }
      const std::string name = static_cast<const char*>(entry->d_name);
      if (name != "." && name != "..") {
        append_entry(out, name);
      }
    }
    return !levels_.empty();
  }

 private:
  Result<void> enter(base::Fd folder, std::string path) {
    DIR* entries = ::fdopendir(folder.get());
    if (entries == nullptr) {
      return std::unexpected(file_error(errno, path));
    }
    [[maybe_unused]] const int owned = folder.release();
    levels_.push_back({.folder{entries}, .path = std::move(path)});
    return {};
  }

  void append_entry(std::string& out, const std::string& name) {
    const int folder = ::dirfd(levels_.back().folder.get());
    struct stat status{};
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return;  // gone since it was read
    }
    const std::string& parent = levels_.back().path;
    const std::string path = base::cat(parent == "/" ? "" : parent, "/", name);
    out += first_ ? "{\"name\":" : ",{\"name\":";
    first_ = false;
    base::append_json_string(out, name);
    out += ",\"path\":";
    base::append_json_string(out, path);
    if (!base::is_utf8(path)) {
      // What JSON cannot hold, ready to be put into a query.
      out += base::cat(",\"path_encoded\":\"", base::percent_encode(path), '"');
    }
    out += base::cat(",\"type\":\"", type_name(status.st_mode), "\",\"size\":", status.st_size,
                     ",\"mode\":\"", octal(status.st_mode), "\",\"uid\":", status.st_uid,
                     ",\"gid\":", status.st_gid, ",\"mtime\":\"", modified_at(status),
                     "\",\"link_target\":");
    append_target(out, folder, name, status);
    out += '}';
    if (S_ISDIR(status.st_mode) && levels_.size() < static_cast<size_t>(request_.depth)) {
      base::Fd child(::openat(folder, name.c_str(),
                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      if (child) {
        [[maybe_unused]] const auto entered = enter(std::move(child), path);
      }
    }
  }

  static void append_target(std::string& out, int folder, const std::string& name,
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

  const FileRequest& request_;
  std::vector<Level> levels_;
  bool first_ = true;
};

net::Task<Result<void>> write_chunk(net::Stream& client, std::string_view bytes) {
  const std::string head = wire::http::chunk_head(bytes.size());
  CO_RETURN_IF_ERROR(co_await client.write_all(head, bytes, kWritePatience));
  co_return co_await client.write_all("\r\n", kWritePatience);
}

}  // namespace

net::Task<Result<void>> write_listing(net::Stream& client, FileRequest request, bool head_only) {
  Lister lister(request);
  CO_RETURN_IF_ERROR(lister.open());
  const std::string head = chunked_answer_head();
  CO_RETURN_IF_ERROR(co_await client.write_all(head, kWritePatience));
  if (head_only) {
    co_return Result<void>{};
  }
  std::string text = "{\"items\":[";
  while (lister.next(text)) {
    CO_RETURN_IF_ERROR(co_await write_chunk(client, text));
    text.clear();
  }
  text += "]}";
  CO_RETURN_IF_ERROR(co_await write_chunk(client, text));
  co_return co_await client.write_all(wire::http::kLastChunk, kWritePatience);
}

}  // namespace agent
