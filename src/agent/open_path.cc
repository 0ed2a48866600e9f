#include "agent/open_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/file_request.h"

namespace agent {
namespace {

constexpr mode_t kNewFolderMode = 0755;

}  // namespace

Result<base::Fd> open_path(int folder, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_NO_MAGICLINKS;
  for (;;) {
    base::Fd file(static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how)));
    if (file) {
      return file;
    }
    if (errno != EINTR) {
      return std::unexpected(file_error(errno, path));
    }
  }
}

SplitPath split_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return {.folder = ".", .name = path};
  }
  return {.folder = slash == 0 ? "/" : path.substr(0, slash), .name = path.substr(slash + 1)};
}

Result<base::Fd> open_or_make_folder(int base, const std::string& path) {
  auto whole = open_path(base, path, O_PATH | O_DIRECTORY);
  if (whole || whole.error().code != ErrorCode::file_not_found) {
    return whole;
  }
  ASSIGN_OR_RETURN(base::Fd folder,
                   open_path(base, path.starts_with('/') ? "/" : ".", O_PATH | O_DIRECTORY));
  for (const std::string_view part : base::split(path, '/')) {
    if (part.empty()) {
      continue;
    }
    const std::string name(part);
    auto next = open_path(folder.get(), name, O_PATH | O_DIRECTORY);
    if (!next && next.error().code == ErrorCode::file_not_found) {
      if (::mkdirat(folder.get(), name.c_str(), kNewFolderMode) != 0 && errno != EEXIST) {
        return std::unexpected(file_error(errno, path));
      }
      next = open_path(folder.get(), name, O_PATH | O_DIRECTORY);
    }
    if (!next) {
      return next;
    }
    folder = std::move(*next);
  }
  return folder;
}

}  // namespace agent
