#include "cli/command_line.h"
#include "cli/completion_script.h"
#include "cli/context.h"

namespace cli {

Result<int> completion(Context& context, const CompletionOptions& options) {
  RETURN_IF_ERROR(context.console.write_out(completion_script(options.shell, describe_commands())));
  return 0;
}

}  // namespace cli
