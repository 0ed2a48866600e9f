// A fresh volume begins with what the image has where it is mounted. Synchronous; as root, before
// the container's own command runs. Follows no link, leaves devices and sockets out.
#pragma once

#include "base/error.h"

namespace agent {

// Copies what is in the folder `from` into the folder `to` if that is empty. Owners, modes, times
// and links go along. Errors: those of the file system; what was copied until then stays.
base::Result<void> populate(int from, int to);

}  // namespace agent
