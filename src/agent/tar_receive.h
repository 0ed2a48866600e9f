// PUT /files?tar=1: an archive laid out in a folder while it arrives. A coroutine of its
// connection; holds one buffer of the body and one member's head.
#pragma once

#include "agent/file_request.h"
#include "net/http.h"

namespace agent {

// Errors of a broken or hostile archive are archive_invalid; their details say what was placed
// before (`written`, the first names, a line each, and `written_count`).
net::Task<Result<void>> receive_tar(net::Stream& client, net::HttpReader& reader,
                                    const wire::http::Request& request, const FileRequest& wanted);

}  // namespace agent
