// A btrfs of our own in one loop file: made once, mounted at each start. Blocks while mkfs.btrfs
// runs (first start only). The file is allocated whole, so that a full host can never turn it
// read-only, and mounted without discard, which would punch holes into it again. Nothing leaks: the
// loop device goes by itself with the mount.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace node {

// Mounts `image` at `folder`, both made if need be (an image that exists keeps its size);
// nothing to do if something is mounted there already.
base::Result<void> mount_pool(const std::string& image, const std::string& folder, int64_t size_mb);
base::Result<void> unmount_pool(const std::string& folder);

// Whether a file system is mounted exactly there, after a /proc/self/mountinfo text.
bool is_mounted(std::string_view mountinfo, std::string_view folder);

}  // namespace node
