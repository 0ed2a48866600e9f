// The `$` of compose files and env files: $NAME, ${NAME}, ${NAME:-default}, ${NAME-default},
// ${NAME:+other}, ${NAME+other}, ${NAME:?message}, ${NAME?message}, nested in each other, and $$
// for the sign itself. Pure. What one text grows to is bounded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/sandbox.h"

namespace compose {

// A text, and all of a file's together: far above any real one, far below what hurts.
inline constexpr size_t kTextBytesMax = size_t{128} * 1024;

enum class Grammar {
  file,      // of a compose file: any other `$` is an error
  env_file,  // of an env file: any other `$` stands for itself
};

// Variables that are not set are empty. Errors: compose_invalid with `field`.
base::Result<std::string> interpolate(std::string_view text, const model::EnvironmentMap& variables,
                                      Grammar grammar, std::string_view field);

}  // namespace compose
