// The routes under /files: which coroutine answers which method and path.
#pragma once

#include "agent/agent.h"
#include "net/http.h"

namespace agent {

// `request.path` is /files or beneath it. method_not_allowed, not_found for what is no route.
net::Task<Result<void>> serve_files(Agent& agent, net::Stream& client, net::HttpReader& reader,
                                    const wire::http::Request& request);

}  // namespace agent
