// One command in a sandbox as if it ran here: its output as it comes, our input, its exit code. It
// is a session that is forgotten at its end, so a lost connection or a gateway that restarts costs
// nothing. What exec and run share.
#pragma once

#include "cli/context.h"

namespace cli {

// Whether the sandbox goes right afterwards: then its session is not removed one by one.
enum class SandboxAfter { stays, goes };

// Runs it and gives the exit code to end with. A signal cancels the command and gives 128 + N; a
// second one does not wait for that.
Result<int> run_command(Context& context, const SandboxTarget& sandbox,
                        const CommandOptions& options, SandboxAfter after);

}  // namespace cli
