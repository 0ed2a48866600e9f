// PUT /credentials: files of the sandbox's user and variables for commands from now on, which the
// gateway keeps fresh (api/agent-protocol.md). Each file is replaced whole, with mode 0600 and the
// rights of that user; what cannot be written is told and hinders nothing else.
#pragma once

#include "agent/agent.h"
#include "net/http.h"

namespace agent {

net::Task<Result<void>> put_credentials(Agent& agent, net::Stream& stream, net::HttpReader& reader,
                                        const wire::http::Request& request);

}  // namespace agent
