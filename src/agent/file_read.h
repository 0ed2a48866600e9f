// GET and HEAD /files: a file's bytes or a folder's listing. Coroutines of their connection; bytes
// go from the file to the socket in the kernel; a listing holds one slice and the open folders.
#pragma once

#include "agent/agent.h"
#include "net/stream.h"
#include "wire/http1.h"

namespace agent {

// A file that shrinks while it is sent breaks the connection off: connection_closed.
net::Task<Result<void>> read_file(Agent& agent, net::Stream& client,
                                  const wire::http::Request& request);

}  // namespace agent
