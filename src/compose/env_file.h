// Env files (`.env`, env_file): NAME=value lines with comments, quotes and `export`, as Compose
// reads them. Pure; bounded by the text's size.
#pragma once

#include <string_view>

#include "base/error.h"
#include "model/sandbox.h"

namespace compose {

// Variables in values are taken from the file's own lines above and then from `variables`; not in
// single quotes. A name without '=' has its value from `variables`, or is left out. Errors:
// compose_invalid with `field` and the line.
base::Result<model::EnvironmentMap> parse_env_file(std::string_view text,
                                                   const model::EnvironmentMap& variables,
                                                   std::string_view field);

}  // namespace compose
