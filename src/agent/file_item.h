// One entry of a folder as the API shows it: the items of a listing, and the answer of `stat=1`.
// Links are shown, not followed.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/error.h"

namespace agent {

using base::Result;

// Appends the JSON of `name` in `folder`, whose status was read. `path` is the whole one.
void append_item(std::string& out, int folder, const std::string& name, const std::string& path,
                 const struct stat& status);
// The JSON of the entry at `path`, found with the rights in force.
Result<std::string> item_at(const std::string& path);
// "0755"
std::string octal_mode(mode_t mode);

}  // namespace agent
