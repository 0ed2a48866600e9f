// Storage on xfs or ext4 with project quotas: a folder per area, all of its files belong to one
// project, whose usage the file system limits. The project's number is kept in the folder itself.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "node/storage.h"

namespace node {

// Fails with `unavailable` where the file system of `root` does not enforce project quotas.
base::Result<std::unique_ptr<Storage>> open_project_quota_storage(const std::string& root);

}  // namespace node
