#include "agent/tree_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "agent/acting_as.h"
#include "agent/folder_stack.h"
#include "agent/open_path.h"

namespace agent {
namespace {

constexpr uint32_t kEvents = IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM |
                             IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR |
                             IN_EXCL_UNLINK;
constexpr size_t kReadBytes = size_t{64} * 1024;
// Of one turn; the kernel keeps the rest.
constexpr size_t kChangesMax = 4096;

bool is_beneath(std::string_view path, std::string_view folder) {
  return path == folder ||
         (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

std::string join(const std::string& folder, std::string_view name) {
  return base::cat(folder, "/", name);
}

}  // namespace

std::string_view to_string(FileChange::Kind kind) {
  switch (kind) {
    case FileChange::Kind::created:
      return "created";
    case FileChange::Kind::modified:
      return "modified";
    case FileChange::Kind::attributes:
      return "attributes";
    case FileChange::Kind::deleted:
      return "deleted";
    case FileChange::Kind::moved:
      return "moved";
    case FileChange::Kind::overflow:
      return "overflow";
    case FileChange::Kind::gone:
      return "gone";
  }
  return "modified";
}

Result<void> TreeWatch::begin() {
  inotify_ = base::Fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify_) {
    return base::fail(ErrorCode::overloaded,
                      "the host has no more inotify instances (fs.inotify.max_user_instances)");
  }
  const ActingAs acting(request_.acting);
  root_ = request_.path;
  while (root_.ends_with('/')) {
    root_.pop_back();
  }
  ASSIGN_OR_RETURN(const base::Fd place, open_path(AT_FDCWD, request_.path, O_PATH));
  struct stat status{};
  if (::fstat(place.get(), &status) != 0) {
    return std::unexpected(file_error(errno, request_.path));
  }
  if (!S_ISDIR(status.st_mode)) {
    // A file that is replaced would be lost; its folder tells of its successor too.
    const SplitPath split = split_path(root_);
    only_name_ = split.name;
    root_ = split.folder == "/" ? "" : split.folder;
  }
  RETURN_IF_ERROR(add_tree(root_, nullptr));
  root_id_ = paths_.empty() ? -1 : paths_.begin()->first;
  return {};
}

Result<void> TreeWatch::add(int folder, const std::string& path) {
  if (paths_.size() == kFoldersMax) {
    return base::fail_field("recursive", "'", path, "' is beyond the ", kFoldersMax,
                            " folders that one watch can have");
  }
  const std::string itself = base::cat("/proc/self/fd/", folder);
  const int id = ::inotify_add_watch(inotify_.get(), itself.c_str(), kEvents);
  if (id < 0) {
    return errno == ENOSPC
               ? base::fail(ErrorCode::overloaded,
                            "the host has no more watches (fs.inotify.max_user_watches)")
               : std::unexpected(file_error(errno, path));
  }
  paths_[id] = path;
  return {};
}

Result<void> TreeWatch::add_tree(const std::string& path, std::vector<FileChange>* found) {
  const std::string shown = path.empty() ? "/" : path;
  // A new folder's link must not be followed; the one asked for may be a link.
  const int link = found == nullptr ? 0 : O_NOFOLLOW;
  ASSIGN_OR_RETURN(auto root, open_path(AT_FDCWD, shown, O_RDONLY | O_DIRECTORY | link));
  // First the watch, then the look: nothing falls between them.
  RETURN_IF_ERROR(add(root.get(), path));
  if (!request_.recursive || !only_name_.empty()) {
    return {};
  }
  FolderStack folders(path);
  RETURN_IF_ERROR(folders.enter(std::move(root), ""));
  while (!folders.empty()) {
    const dirent* entry = folders.next();
    if (entry == nullptr) {
      folders.leave();
      continue;
    }
    const std::string name = static_cast<const char*>(entry->d_name);
    const bool is_folder = entry->d_type == DT_DIR;
    if (found != nullptr && found->size() < kChangesMax) {
      found->push_back({.kind = FileChange::Kind::created,
                        .path = folders.path_of(name),
                        .is_folder = is_folder});
    }
    // What is gone meanwhile or may not be read is not watched.
    if (is_folder && folders.enter(name.c_str())) {
      RETURN_IF_ERROR(add(folders.folder(), folders.path()));
    }
  }
  return {};
}

std::vector<FileChange> TreeWatch::take() {
  std::vector<FileChange> out;
  const ActingAs acting(request_.acting);
  move_cookie_ = 0;
  alignas(inotify_event) std::array<char, kReadBytes> buffer;
  while (out.size() < kChangesMax) {
    const ssize_t size = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (size <= 0) {
      break;
    }
    for (ssize_t at = 0; at < size;) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* name = buffer.data() + at + sizeof event;
      at += static_cast<ssize_t>(sizeof event + event.len);
      note(event, event.len == 0 ? std::string_view() : std::string_view(name), out);
    }
  }
  forget_left(out);
  return out;
}

void TreeWatch::forget_left(std::vector<FileChange>& out) {
  if (std::exchange(move_cookie_, 0) == 0 || !out.at(move_index_).is_folder) {
    return;
  }
  std::erase_if(paths_, [&](const auto& watched) {
    const bool left = is_beneath(watched.second, out.at(move_index_).path);
    if (left) {
      ::inotify_rm_watch(inotify_.get(), watched.first);
    }
    return left;
  });
}

void TreeWatch::note(const inotify_event& event, std::string_view name,
                     std::vector<FileChange>& out) {
  using Kind = FileChange::Kind;
  const auto tell = [&](FileChange change) {
    // A burst of writes is one change.
    if (out.empty() || out.back() != change) {
      out.push_back(std::move(change));
    }
  };
  if ((event.mask & IN_Q_OVERFLOW) != 0) {
    return tell({.kind = Kind::overflow, .path = root_});
  }
  const auto folder = paths_.find(event.wd);
  if (folder == paths_.end()) {
    return;
  }
  if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0) {
    if (event.wd == root_id_ && (event.mask & IN_IGNORED) == 0) {
      tell({.kind = Kind::gone, .path = root_, .is_folder = true});
    }
    if ((event.mask & IN_IGNORED) != 0) {
      paths_.erase(folder);
    }
    return;
  }
  if (name.empty() || (!only_name_.empty() && name != only_name_)) {
    return;
  }
  FileChange change{.path = join(folder->second, name), .is_folder = (event.mask & IN_ISDIR) != 0};
  if ((event.mask & IN_MOVED_FROM) != 0) {
    forget_left(out);
    change.kind = Kind::deleted;
    move_cookie_ = event.cookie;
    move_index_ = out.size();
    out.push_back(std::move(change));
    return;
  }
  if ((event.mask & IN_MOVED_TO) != 0 && move_cookie_ != 0 && event.cookie == move_cookie_) {
    move_cookie_ = 0;
    FileChange& moved = out.at(move_index_);
    moved.kind = Kind::moved;
    moved.from = std::exchange(moved.path, std::move(change.path));
    if (moved.is_folder) {
      rename_beneath(moved.from, moved.path);
    }
    return;
  }
  change.kind = (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0 ? Kind::created
                : (event.mask & IN_DELETE) != 0               ? Kind::deleted
                : (event.mask & IN_ATTRIB) != 0               ? Kind::attributes
                                                              : Kind::modified;
  const bool is_new_folder = change.kind == Kind::created && change.is_folder;
  const std::string path = change.path;
  tell(std::move(change));
  if (is_new_folder && request_.recursive) {
    const auto added = add_tree(path, &out);
    if (!added && added.error().code != ErrorCode::file_not_found &&
        added.error().code != ErrorCode::permission_denied) {
      tell({.kind = Kind::overflow, .path = path, .is_folder = true});
    }
  }
}

// The watches of what moved go with it.
void TreeWatch::rename_beneath(const std::string& from, const std::string& to) {
  for (auto& [id, path] : paths_) {
    if (is_beneath(path, from)) {
      path.replace(0, from.size(), to);
    }
  }
}

}  // namespace agent
