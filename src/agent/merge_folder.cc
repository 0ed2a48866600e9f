#include "agent/merge_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/file_request.h"
#include "agent/folder_stack.h"

namespace agent {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr size_t kDepthMax = FolderStack::kLevelsMax;

bool is_folder(int parent, const char* name) {
  struct stat status{};
  return ::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

Result<void> merge(int from_parent, const std::string& from, int to_parent, const std::string& to,
                   size_t depth) {
  base::Fd source(::openat(from_parent, from.c_str(), kFolderFlags));
  const base::Fd target(::openat(to_parent, to.c_str(), kFolderFlags));
  if (!source || !target || depth > kDepthMax) {
    return std::unexpected(file_error(depth > kDepthMax ? ENAMETOOLONG : errno, to));
  }
  FolderStack folder(to);
  RETURN_IF_ERROR(folder.enter(std::move(source), ""));
  while (const dirent* entry = folder.next()) {
    const std::string name = static_cast<const char*>(entry->d_name);
    const int here = folder.folder();
    if (::renameat2(here, name.c_str(), target.get(), name.c_str(), RENAME_NOREPLACE) == 0) {
      continue;
    }
    if (errno == EEXIST && is_folder(here, name.c_str())) {
      RETURN_IF_ERROR(merge(here, name, target.get(), name, depth + 1));
    } else if (errno != EEXIST || ::renameat(here, name.c_str(), target.get(), name.c_str()) != 0) {
      return std::unexpected(file_error(errno, folder.path_of(name)));
    }
  }
  if (::unlinkat(from_parent, from.c_str(), AT_REMOVEDIR) != 0) {
    return std::unexpected(file_error(errno, to));
  }
  return {};
}

}  // namespace

Result<void> merge_folder(int from_parent, const std::string& from, int to_parent,
                          const std::string& to) {
  return merge(from_parent, from, to_parent, to, 0);
}

}  // namespace agent
