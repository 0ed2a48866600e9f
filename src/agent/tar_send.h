// GET /files?tar=1: a folder as an archive, streamed in chunks. A coroutine of its connection;
// holds one slice of the archive.
#pragma once

#include "agent/file_request.h"
#include "net/stream.h"

namespace agent {

// An archive that cannot be finished breaks the connection off: connection_closed.
net::Task<Result<void>> send_tar(net::Stream& client, FileRequest request, bool head_only);

}  // namespace agent
