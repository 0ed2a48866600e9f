// Moves what is in one folder into another that has become its rival: by renaming, so that a
// file's place is taken at once. Synchronous, with the rights in force; follows no link.
#pragma once

#include <string>

#include "base/error.h"

namespace agent {

using base::Result;

// Folder `from` of `from_parent` into folder `to` of `to_parent`; `from` is gone afterwards. A file
// takes a file's place; where file and folder meet, the rest stays behind: is_a_directory or
// not_a_directory.
Result<void> merge_folder(int from_parent, const std::string& from, int to_parent,
                          const std::string& to);

}  // namespace agent
