// Opening what a client names. Links are followed as a process of the sandbox would follow them,
// but for magic ones: /proc/self/fd/N would be the agent's own descriptor.
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace agent {

using base::Result;

// openat2(RESOLVE_NO_MAGICLINKS); errors are the API's (file_error). The flags hold no O_CREAT.
Result<base::Fd> open_path(int folder, const std::string& path, int flags);
// A descriptor that names the folder at `path` (O_PATH); what is missing of it is made with the
// rights in force, mode 0755.
Result<base::Fd> open_or_make_folder(int base, const std::string& path);

// "/a/b" -> "/a", "b"; the name is empty where the path ends in '/'.
struct SplitPath {
  std::string folder;
  std::string name;
};
SplitPath split_path(const std::string& path);

}  // namespace agent
