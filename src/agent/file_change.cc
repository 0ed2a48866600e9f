#include "agent/file_change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "agent/acting_as.h"
#include "agent/answers.h"
#include "agent/copy_folder.h"
#include "agent/file_item.h"
#include "agent/folder_stack.h"
#include "agent/open_path.h"

namespace agent {
namespace {

constexpr mode_t kNewFolderMode = 0755;
constexpr int kEntriesATurn = 500;

// The folder that a path lies in, and its name there.
struct Location {
  base::Fd folder;
  std::string name;
};

enum class Parents { must_exist, are_made };

Result<Location> locate(std::string path, Parents parents) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  const SplitPath split = split_path(path);
  if (split.name.empty() || split.name == "." || split.name == "..") {
    return base::fail(ErrorCode::path_invalid, "'", path, "' is no name of a file or folder");
  }
  Location out{.name = split.name};
  if (parents == Parents::are_made) {
    ASSIGN_OR_RETURN(out.folder, open_or_make_folder(AT_FDCWD, split.folder));
  } else {
    ASSIGN_OR_RETURN(out.folder, open_path(AT_FDCWD, split.folder, O_PATH | O_DIRECTORY));
  }
  return out;
}

Result<std::string> item_as(const FileRequest& request, const std::string& path) {
  const ActingAs acting(request.acting);
  return item_at(path);
}

// Removes one entry, a folder with all that is in it.
class Removal {
 public:
  explicit Removal(const FileRequest& request) : request_(request), folders_(request.path) {}

  // What is no folder is removed at once.
  Result<void> begin() {
    const ActingAs acting(request_.acting);
    ASSIGN_OR_RETURN(place_, locate(request_.path, Parents::must_exist));
    struct stat status{};
    const int folder = place_.folder.get();
    const char* name = place_.name.c_str();
    if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return std::unexpected(file_error(errno, request_.path));
    }
    if (!S_ISDIR(status.st_mode)) {
      return unlink(folder, name, 0, request_.path);
    }
    if (!request_.recursive) {
      return std::unexpected(file_error(EISDIR, request_.path));
    }
    device_ = status.st_dev;
    base::Fd tree(::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!tree) {
      return std::unexpected(file_error(errno, request_.path));
    }
    return enter(std::move(tree), place_.name);
  }
  // False when nothing is left.
  Result<bool> next() {
    const ActingAs acting(request_.acting);
    for (int i = 0; i < kEntriesATurn && !folders_.empty(); ++i) {
      RETURN_IF_ERROR(step());
    }
    return !folders_.empty();
  }

 private:
  static Result<void> unlink(int folder, const char* name, int flags, const std::string& path) {
    if (::unlinkat(folder, name, flags) != 0 && errno != ENOENT) {
      return std::unexpected(file_error(errno, path));
    }
    return {};
  }
  Result<void> enter(base::Fd tree, std::string name) {
    struct stat status{};
    if (::fstat(tree.get(), &status) != 0 || status.st_dev != device_) {
      return std::unexpected(file_error(EBUSY, folders_.path_of(name)));  // a mount
    }
    RETURN_IF_ERROR(folders_.enter(std::move(tree), name));
    names_.push_back(std::move(name));
    return {};
  }
  Result<void> step() {
    const dirent* entry = folders_.next();
    if (entry == nullptr) {
      const std::string name = std::move(names_.back());
      const std::string path = folders_.path();
      names_.pop_back();
      folders_.leave();
      const int parent = folders_.empty() ? place_.folder.get() : folders_.folder();
      return unlink(parent, name.c_str(), AT_REMOVEDIR, path);
    }
    const std::string name = static_cast<const char*>(entry->d_name);
    if (entry->d_type != DT_DIR && ::unlinkat(folders_.folder(), name.c_str(), 0) == 0) {
      return {};
    }
    if (entry->d_type != DT_DIR && errno != EISDIR) {
      return errno == ENOENT ? Result<void>{}
                             : std::unexpected(file_error(errno, folders_.path_of(name)));
    }
    base::Fd tree(::openat(folders_.folder(), name.c_str(),
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!tree) {
      return std::unexpected(file_error(errno, folders_.path_of(name)));
    }
    return enter(std::move(tree), name);
  }

  const FileRequest& request_;
  Location place_;
  dev_t device_ = 0;
  FolderStack folders_;
  std::vector<std::string> names_;  // of the open folders
};

net::Task<Result<void>> remove_all(net::EventLoop& loop, const FileRequest& request) {
  Removal removal(request);
  CO_RETURN_IF_ERROR(removal.begin());
  for (bool more = true; more;) {
    CO_ASSIGN_OR_RETURN(more, removal.next());
    co_await loop.yield();
  }
  co_return Result<void>{};
}

Result<void> make_at(const FileRequest& request) {
  const ActingAs acting(request.acting);
  ASSIGN_OR_RETURN(const Location place, locate(request.path, Parents::are_made));
  const int folder = place.folder.get();
  const char* name = place.name.c_str();
  if (::mkdirat(folder, name, request.mode.value_or(kNewFolderMode)) != 0) {
    const int reason = errno;
    struct stat status{};
    if (reason == EEXIST && ::fstatat(folder, name, &status, 0) == 0 && S_ISDIR(status.st_mode)) {
      return {};
    }
    return std::unexpected(file_error(reason, request.path));
  }
  if (request.owner &&
      ::fchownat(folder, name, request.owner->uid, request.owner->gid, AT_SYMLINK_NOFOLLOW) != 0) {
    const int reason = errno;
    ::unlinkat(folder, name, AT_REMOVEDIR);
    return std::unexpected(file_error(reason, request.path));
  }
  return {};
}

enum class Moved { yes, lies_elsewhere };

// `lies_elsewhere`: on another file system, or a folder of the image, which cannot be renamed.
Result<Moved> rename_at(const FileRequest& request) {
  const ActingAs acting(request.acting);
  ASSIGN_OR_RETURN(const Location from, locate(request.path, Parents::must_exist));
  struct stat status{};
  if (::fstatat(from.folder.get(), from.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return std::unexpected(file_error(errno, request.path));
  }
  ASSIGN_OR_RETURN(const Location to, locate(request.to, Parents::are_made));
  const unsigned flags = request.overwrite ? 0 : RENAME_NOREPLACE;
  if (::renameat2(from.folder.get(), from.name.c_str(), to.folder.get(), to.name.c_str(), flags) ==
      0) {
    return Moved::yes;
  }
  if (errno == EXDEV) {
    return Moved::lies_elsewhere;
  }
  return std::unexpected(file_error(errno, errno == ENOENT ? request.path : request.to));
}

Result<void> check_absent(const FileRequest& request) {
  const ActingAs acting(request.acting);
  struct stat status{};
  return ::lstat(request.to.c_str(), &status) == 0 ? std::unexpected(file_error(EEXIST, request.to))
                                                   : Result<void>{};
}

// A rename by copying and removing: all of it or nothing.
net::Task<Result<void>> move_by_copy(net::EventLoop& loop, const FileRequest& request) {
  CO_RETURN_IF_ERROR(check_absent(request));
  FileRequest copy = request;
  copy.path = request.to;
  copy.recursive = true;
  const auto copied = co_await copy_folder(loop, request, copy);
  if (!copied) {
    [[maybe_unused]] const auto removed = co_await remove_all(loop, copy);
    co_return std::unexpected(copied.error());
  }
  FileRequest old = request;
  old.recursive = true;
  co_return co_await remove_all(loop, old);
}

Result<void> change(int folder, const char* name, const FileRequest& request, bool is_link,
                    const std::string& path) {
  if (request.owner &&
      ::fchownat(folder, name, request.owner->uid, request.owner->gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return std::unexpected(file_error(errno, path));
  }
  // Behind the owner, since that takes set-user-id away.
  if (request.mode && !is_link && ::fchmodat(folder, name, *request.mode, 0) != 0) {
    return std::unexpected(file_error(errno, path));
  }
  return {};
}

// Changes what the request names, and gives the folder to go on with, if any.
Result<base::Fd> change_first(const FileRequest& request) {
  const ActingAs acting(request.acting);
  ASSIGN_OR_RETURN(const base::Fd place, open_path(AT_FDCWD, request.path, O_PATH));
  if (request.owner &&
      ::fchownat(place.get(), "", request.owner->uid, request.owner->gid, AT_EMPTY_PATH) != 0) {
    return std::unexpected(file_error(errno, request.path));
  }
  const std::string itself = base::cat("/proc/self/fd/", place.get());
  if (request.mode && ::chmod(itself.c_str(), *request.mode) != 0) {
    return std::unexpected(file_error(errno, request.path));
  }
  if (!request.recursive) {
    return base::Fd();
  }
  auto folder = open_path(AT_FDCWD, request.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  if (!folder && folder.error().code == ErrorCode::not_a_directory) {
    return base::Fd();
  }
  return folder;
}

Result<bool> change_some(const FileRequest& request, FolderStack& folders) {
  const ActingAs acting(request.acting);
  for (int i = 0; i < kEntriesATurn && !folders.empty(); ++i) {
    const dirent* entry = folders.next();
    if (entry == nullptr) {
      folders.leave();
      continue;
    }
    const std::string name = static_cast<const char*>(entry->d_name);
    const auto changed = change(folders.folder(), name.c_str(), request, entry->d_type == DT_LNK,
                                folders.path_of(name));
    if (!changed && changed.error().code != ErrorCode::file_not_found) {
      return std::unexpected(changed.error());
    }
    if (entry->d_type == DT_DIR) {
      const auto entered = folders.enter(name.c_str());
      if (!entered && entered.error().code != ErrorCode::file_not_found) {
        return std::unexpected(entered.error());
      }
    }
  }
  return !folders.empty();
}

}  // namespace

net::Task<Result<void>> remove_file(net::Stream& client, FileRequest request) {
  CO_RETURN_IF_ERROR(co_await remove_all(client.loop(), request));
  co_return co_await write_no_content(client);
}

net::Task<Result<void>> make_folder(net::Stream& client, FileRequest request) {
  CO_RETURN_IF_ERROR(make_at(request));
  CO_ASSIGN_OR_RETURN(std::string item, item_as(request, request.path));
  co_return co_await write_json(client, 200, std::move(item));
}

net::Task<Result<void>> move_file(net::Stream& client, FileRequest request) {
  CO_ASSIGN_OR_RETURN(const Moved moved, rename_at(request));
  if (moved == Moved::lies_elsewhere) {
    CO_RETURN_IF_ERROR(co_await move_by_copy(client.loop(), request));
  }
  CO_ASSIGN_OR_RETURN(std::string item, item_as(request, request.to));
  co_return co_await write_json(client, 200, std::move(item));
}

net::Task<Result<void>> change_mode(net::Stream& client, FileRequest request) {
  CO_ASSIGN_OR_RETURN(base::Fd folder, change_first(request));
  if (folder) {
    FolderStack folders(request.path);
    CO_RETURN_IF_ERROR(folders.enter(std::move(folder), ""));
    for (bool more = true; more;) {
      CO_ASSIGN_OR_RETURN(more, change_some(request, folders));
      co_await client.loop().yield();
    }
  }
  CO_ASSIGN_OR_RETURN(std::string item, item_as(request, request.path));
  co_return co_await write_json(client, 200, std::move(item));
}

}  // namespace agent
