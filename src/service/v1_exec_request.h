// The body of /api/v1's exec, checked once and made into what the agent takes. Pure.
#pragma once

#include "service/run_request.h"

namespace service {

// {"command", "workdir"?, "timeout"?}: the last two may be null; a timeout of 0 is none. Refusals
// name these fields.
base::Result<RunRequest> parse_v1_exec(std::string_view body);

}  // namespace service
