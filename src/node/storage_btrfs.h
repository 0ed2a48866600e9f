// Storage on btrfs: a subvolume per area, limited by its quota group. Everything is one ioctl or
// two; the kernel deletes in the background.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "node/storage.h"

namespace node {

// In `root`, a folder of the host's own btrfs.
base::Result<std::unique_ptr<Storage>> open_btrfs_storage(const std::string& root);
// In a btrfs of its own in lib_folder/storage.img, mounted at lib_folder/pool.
base::Result<std::unique_ptr<Storage>> open_btrfs_loop_storage(const std::string& lib_folder,
                                                               int64_t pool_mb);

}  // namespace node
