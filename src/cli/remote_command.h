// One command in a sandbox, buffered: what exec and run share.
#pragma once

#include "cli/context.h"

namespace cli {

// Standard input that is sent along at most; more goes by `sandbox cp`.
inline constexpr size_t kInputBytesMax = 8UL * 1024 * 1024;

// Runs it, writes its output, and gives the exit code to end with. A signal closes the connection,
// which makes the gateway end the command.
Result<int> run_command(Context& context, const std::string& id, const CommandOptions& options);
// The exit code that stands for an answer of POST …/run.
int exit_code_of(const wire::json::Object& answer);

}  // namespace cli
