// Shuts this program in: a root of its own that shows the system's programs and certificates read
// only, an empty /run and /tmp in memory, and one writable folder, /job. Expects to have been
// started by the node in fresh user, mount, pid, ipc and uts namespaces. Once, at the start,
// before anything hostile is read.
#pragma once

#include "base/fd.h"
#include "image/failure.h"

namespace image {

// `work` and `source` (may be invalid) are detached mounts; they become /job and /source.
Result<void> confine(base::Fd work, base::Fd source);
// Nothing is fetched any more: leaves the host's network and gives up every system call that a
// sandbox may not make either. Before an archive is read.
Result<void> prepare_to_unpack();

}  // namespace image
