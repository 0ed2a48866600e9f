#include "agent/folder_stack.h"

#include <errno.h>
#include <fcntl.h>

#include <utility>

#include "agent/file_request.h"

namespace agent {

FolderStack::FolderStack(std::string path) : path_(std::move(path)) {
  while (path_.ends_with('/')) {
    path_.pop_back();
  }
}

Result<void> FolderStack::enter(base::Fd folder, std::string_view name) {
  if (levels_.size() == kLevelsMax) {
    return base::fail(base::ErrorCode::path_invalid, "more than ", kLevelsMax,
                      " folders in each other");
  }
  DIR* entries = ::fdopendir(folder.get());
  if (entries == nullptr) {
    return std::unexpected(file_error(errno, path_of(name)));
  }
  [[maybe_unused]] const int owned = folder.release();
  levels_.push_back({.entries{entries}, .path_size = path_.size()});
  if (levels_.size() > 1) {
    path_ += '/';
    path_ += name;
  }
  return {};
}

Result<void> FolderStack::enter(const char* name) {
  base::Fd child(
      ::openat(folder(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!child) {
    return std::unexpected(file_error(errno, path_of(name)));
  }
  return enter(std::move(child), name);
}

const dirent* FolderStack::next() {
  for (;;) {
    const dirent* entry = ::readdir(levels_.back().entries.get());
    if (entry == nullptr) {
      return nullptr;
    }
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") {
      return entry;
    }
  }
}

void FolderStack::leave() {
  path_.resize(levels_.back().path_size);
  levels_.pop_back();
}

std::string FolderStack::path_of(std::string_view name) const {
  return base::cat(path_, "/", name);
}

}  // namespace agent
