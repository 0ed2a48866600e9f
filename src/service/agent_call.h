// A small question of the gateway's own to a sandbox's agent. The agent is hostile: its answer is
// bounded and must be one JSON object with status 200. Loop thread only.
#pragma once

#include <string>

#include "service/context.h"
#include "wire/json.h"

namespace service {

// GET `target`. Errors: those of connect(); agent_failed; unavailable when it does not answer in
// time.
net::Task<base::Result<wire::json::Object>> ask_agent_json(Context& context, std::string id,
                                                           std::string target);

}  // namespace service
