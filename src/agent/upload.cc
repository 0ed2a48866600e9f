#include "agent/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "agent/acting_as.h"
#include "agent/open_path.h"
#include "base/random.h"

namespace agent {
namespace {

constexpr mode_t kNewFileMode = 0644;
constexpr mode_t kPermissions = 07777;
constexpr mode_t kWithoutSetId = 01777;
constexpr int kLinksMax = 40;  // the kernel's own limit

std::unexpected<base::Error> denied(const std::string& path) {
  return std::unexpected(file_error(EACCES, path));
}

}  // namespace

Result<Upload::Target> Upload::find_target(const FileRequest& request) {
  base::Fd base;
  std::string path = request.path;
  for (int links = 0; links <= kLinksMax; ++links) {
    const SplitPath split = split_path(path);
    ASSIGN_OR_RETURN(base::Fd folder,
                     open_or_make_folder(base ? base.get() : AT_FDCWD, split.folder));
    if (split.name.empty() || split.name == "." || split.name == "..") {
      return std::unexpected(file_error(EISDIR, request.path));
    }
    std::array<char, PATH_MAX> link;
    const ssize_t size = ::readlinkat(folder.get(), split.name.c_str(), link.data(), link.size());
    if (size < 0) {
      // Not a link, or nothing there yet; a name the kernel refuses is refused at its use.
      return Target{.folder = std::move(folder), .name = split.name};
    }
    path.assign(link.data(), static_cast<size_t>(size));
    base = std::move(folder);
  }
  return std::unexpected(file_error(ELOOP, request.path));
}

Result<void> Upload::check_target(const FileRequest& request, const Target& target,
                                  Upload& upload) {
  struct stat status{};
  const bool exists =
      ::fstatat(target.folder.get(), target.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!exists && errno != ENOENT) {
    return std::unexpected(file_error(errno, request.path));
  }
  if (exists && S_ISDIR(status.st_mode)) {
    return std::unexpected(file_error(EISDIR, request.path));
  }
  if (exists && !S_ISREG(status.st_mode)) {
    return std::unexpected(file_error(ENXIO, request.path));
  }
  const int access = exists
                         ? ::faccessat(target.folder.get(), target.name.c_str(), W_OK, AT_EACCESS)
                         : ::faccessat(target.folder.get(), ".", W_OK | X_OK, AT_EACCESS);
  if (access != 0) {
    return std::unexpected(file_error(errno, request.path));
  }
  const bool root = request.acting.uid == 0;
  const uid_t new_owner = request.owner ? request.owner->uid : request.acting.uid;
  if (exists && request.mode && !root && status.st_uid != request.acting.uid) {
    return denied(request.path);
  }
  if (request.owner && !root && new_owner != (exists ? status.st_uid : request.acting.uid)) {
    return denied(request.path);
  }
  upload.owner_ = exists && !request.owner ? status.st_uid : new_owner;
  upload.group_ =
      request.owner ? request.owner->gid : (exists ? status.st_gid : request.acting.gid);
  // What writing to the file would do: set-user-id does not survive another's bytes.
  const mode_t kept = status.st_mode & (root ? kPermissions : kWithoutSetId);
  upload.mode_ = request.mode.value_or(exists ? kept : kNewFileMode);
  return {};
}

Result<Upload> Upload::begin(const FileRequest& request, uint64_t size_hint) {
  Upload upload;
  upload.path_ = request.path;
  {
    const ActingAs acting(request.acting);
    ASSIGN_OR_RETURN(upload.target_, find_target(request));
    RETURN_IF_ERROR(check_target(request, upload.target_, upload));
  }
  struct statvfs space{};
  if (::fstatvfs(upload.target_.folder.get(), &space) == 0 && space.f_blocks > 0 &&
      size_hint / space.f_frsize > space.f_bavail) {
    return std::unexpected(file_error(ENOSPC, request.path));
  }
  RETURN_IF_ERROR(upload.make_temporary());
  return upload;
}

Result<void> Upload::make_temporary() {
  base::KernelRandom random;
  std::string name = base::new_id(random, ".upload");
  // Nobody else reads it before it is whole.
  file_ = base::Fd(::openat(target_.folder.get(), name.c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) {
    return std::unexpected(file_error(errno, path_));
  }
  temporary_ = std::move(name);
  return {};
}

Upload::~Upload() {
  if (file_ && !temporary_.empty()) {
    ::unlinkat(target_.folder.get(), temporary_.c_str(), 0);
  }
}

Result<void> Upload::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return std::unexpected(file_error(errno, path_));
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

Result<void> Upload::commit() {
  // The owner first: changing it clears set-user-id.
  if (::fchown(file_.get(), owner_, group_) != 0 || ::fchmod(file_.get(), mode_) != 0) {
    return std::unexpected(file_error(errno, path_));
  }
  if (::renameat(target_.folder.get(), temporary_.c_str(), target_.folder.get(),
                 target_.name.c_str()) != 0) {
    return std::unexpected(file_error(errno, path_));
  }
  temporary_.clear();
  return {};
}

}  // namespace agent
