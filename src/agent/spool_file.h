// Files for output that is kept: unlinked, in the folder that the node hands over for it (it counts
// against the sandbox's storage), so nothing is left of them when their owner goes.
#pragma once

#include "base/fd.h"

namespace agent {

// `folder` below 0: /tmp. Invalid where no file can be made.
base::Fd open_spool_file(int folder);

}  // namespace agent
