// GET /files?list=1: the entries of a folder, down to a depth, streamed as they are read. Links
// are shown, not followed. Holds one slice of text and one open folder a level.
#pragma once

#include "agent/file_request.h"
#include "net/stream.h"

namespace agent {

net::Task<Result<void>> write_listing(net::Stream& client, FileRequest request, bool head_only);

}  // namespace agent
