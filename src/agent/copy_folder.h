// A folder copied inside the sandbox by way of an archive that never leaves the agent: for moves
// that the kernel cannot make by renaming. A coroutine of its request; holds one slice.
#pragma once

#include "agent/file_request.h"
#include "net/event_loop.h"

namespace agent {

// `from.path` to the new folder `to.path`. What an archive cannot hold (a pipe, a socket) and what
// is no folder is not_supported. A copy that fails is left as far as it came.
net::Task<Result<void>> copy_folder(net::EventLoop& loop, const FileRequest& from, FileRequest to);

}  // namespace agent
