// PUT /files: the body replaces a file, whole or not at all. A coroutine of its connection; holds
// one buffer of kUploadBytes while the body arrives.
#pragma once

#include "agent/agent.h"
#include "net/http.h"

namespace agent {

net::Task<Result<void>> write_file(Agent& agent, net::Stream& client, net::HttpReader& reader,
                                   const wire::http::Request& request);

}  // namespace agent
