// Compose files of this machine as the API takes them: their texts, the variables they name, the
// env files and finished builds of their services.
#pragma once

#include "cli/context.h"

namespace cli {

// `compose` of POST /sandboxes. Makes the builds, showing their logs.
Result<wire::json::Object> compose_request(Context& context, const CreateOptions& options);

}  // namespace cli
