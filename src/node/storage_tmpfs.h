// Storage in memory, the last resort: a tmpfs per area. What a sandbox writes is gone with the
// host, and counts as its memory.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "node/storage.h"

namespace node {

base::Result<std::unique_ptr<Storage>> open_tmpfs_storage(const std::string& root);

}  // namespace node
