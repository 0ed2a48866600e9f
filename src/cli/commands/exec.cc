#include "cli/context.h"
#include "cli/remote_command.h"

namespace cli {

Result<int> exec(Context& context, const ExecOptions& options) {
  return run_command(context, options.sandbox, options.command, SandboxAfter::stays);
}

}  // namespace cli
