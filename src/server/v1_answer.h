// An agent's refusal in the form of /api/v1.
#pragma once

#include "server/agent_request.h"

namespace server {

// Reads the agent's error body and answers with it; agent_failed where it is none.
Task<Result<void>> v1_answer_agent_error(Exchange& exchange, AgentChannel& channel,
                                         const wire::http::Response& response);

}  // namespace server
