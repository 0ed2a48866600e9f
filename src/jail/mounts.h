// The detached mounts that the node makes for a sandbox and hands over as descriptors: nothing of
// them is ever seen in the node's own mount namespace, and each is gone with its last descriptor
// and sandbox. Root only; failures are code io and name the step.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace jail {

// A copy of the mount at `folder`, without what is mounted below it; ids 0..65535 on disk are seen
// as those of the user namespace, which cannot change anything through it.
base::Result<base::Fd> clone_id_mapped(const std::string& folder, int user_namespace);

// A copy of the mount at `folder` whose paths start there (mountinfo inside a sandbox shows them).
base::Result<base::Fd> clone_plain(const std::string& folder);

// An overlay: `lower` top first, by descriptors; upper and work lie on one file system.
base::Result<base::Fd> make_overlay(std::span<const int> lower, int upper, int work);

// sysfs of the network namespace that the calling thread is in, read-only. A sandbox could not
// mount it itself, since the network namespace is the host's.
base::Result<base::Fd> make_sysfs();

// A small tmpfs with the usual device nodes and links, owned by `owner`.
base::Result<base::Fd> make_dev(uid_t owner);

// A folder of a storage area to be mounted in a sandbox: no devices, perhaps read-only.
base::Result<base::Fd> make_volume(const std::string& folder, bool read_only);

// A tmpfs of at most that size, open to all as /tmp is.
base::Result<base::Fd> make_tmpfs(uid_t owner, int64_t size_mb, bool read_only);

}  // namespace jail
