#include "agent/populate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/fd.h"

namespace agent {
namespace {

using base::Fd;
using base::Result;

// An image whose folders are deeper is not copied whole.
constexpr int kDepthMax = 64;
constexpr size_t kPieceBytes = size_t{1} << 24;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

Result<Folder> open_folder(int parent, const char* name) {
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  Folder folder(fd < 0 ? nullptr : ::fdopendir(fd));
  if (!folder) {
    return base::fail_errno(errno, "open ", name);
  }
  return folder;
}

// The next name that is not "." or ".."; null at the end.
const char* next_name(DIR* folder) {
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      return entry->d_name;
    }
  }
  return nullptr;
}

Result<void> take_after(int parent, const char* name, const struct stat& status) {
  if (::fchownat(parent, name, status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return base::fail_errno(errno, "chown ", name);
  }
  if (!S_ISLNK(status.st_mode) && ::fchmodat(parent, name, status.st_mode & 07777, 0) != 0) {
    return base::fail_errno(errno, "chmod ", name);
  }
  const std::array<timespec, 2> times{status.st_atim, status.st_mtim};
  if (::utimensat(parent, name, times.data(), AT_SYMLINK_NOFOLLOW) != 0) {
    return base::fail_errno(errno, "set the times of ", name);
  }
  return {};
}

Result<void> copy_file(int from, int to, const char* name) {
  const Fd source(::openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  const Fd target(::openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!source || !target) {
    return base::fail_errno(errno, "copy ", name);
  }
  for (;;) {
    const ssize_t count = ::sendfile(target.get(), source.get(), nullptr, kPieceBytes);
    if (count == 0) {
      return {};
    }
    if (count < 0 && errno != EINTR) {
      return base::fail_errno(errno, "copy ", name);
    }
  }
}

Result<void> copy_link(int from, int to, const char* name) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(from, name, target.data(), target.size() - 1);
  if (length < 0 || ::symlinkat(target.data(), to, name) != 0) {
    return base::fail_errno(errno, "copy the link ", name);
  }
  return {};
}

Result<void> copy_entries(DIR* from, int to, int depth);

Result<void> copy_entry(int from, int to, const char* name, int depth) {
  struct stat status{};
  if (::fstatat(from, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return base::fail_errno(errno, "stat ", name);
  }
  if (S_ISREG(status.st_mode)) {
    RETURN_IF_ERROR(copy_file(from, to, name));
  } else if (S_ISLNK(status.st_mode)) {
    RETURN_IF_ERROR(copy_link(from, to, name));
  } else if (S_ISDIR(status.st_mode)) {
    if (::mkdirat(to, name, 0700) != 0) {
      return base::fail_errno(errno, "make ", name);
    }
    ASSIGN_OR_RETURN(const Folder inside, open_folder(from, name));
    const Fd target(::openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!target) {
      return base::fail_errno(errno, "open ", name);
    }
    RETURN_IF_ERROR(copy_entries(inside.get(), target.get(), depth + 1));
  } else {
    return {};
  }
  return take_after(to, name, status);
}

Result<void> copy_entries(DIR* from, int to, int depth) {
  if (depth > kDepthMax) {
    return base::fail(base::ErrorCode::path_invalid, "folders are nested too deeply");
  }
  while (const char* const name = next_name(from)) {
    RETURN_IF_ERROR(copy_entry(::dirfd(from), to, name, depth));
  }
  return {};
}

}  // namespace

Result<void> populate(int from, int to) {
  ASSIGN_OR_RETURN(const Folder present, open_folder(to, "."));
  if (next_name(present.get()) != nullptr) {
    return {};
  }
  struct stat status{};
  if (::fstat(from, &status) != 0) {
    return base::fail_errno(errno, "stat the image's folder");
  }
  ASSIGN_OR_RETURN(const Folder source, open_folder(from, "."));
  const Fd target(::openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  RETURN_IF_ERROR(copy_entries(source.get(), target.get(), 0));
  return take_after(target.get(), ".", status);
}

}  // namespace agent
