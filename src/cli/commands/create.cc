#include "cli/context.h"
#include "cli/sandbox_start.h"
#include "cli/sandbox_view.h"

namespace cli {

Result<int> create(Context& context, const CreateOptions& options) {
  ASSIGN_OR_RETURN(auto sandbox, start_sandbox(context, options));
  const std::string id = field_text(sandbox, "id");
  if (options.wait) {
    auto ready = wait_until_ready(context, id);
    if (!ready) {
      if (ready.error().code == base::ErrorCode::cancelled) {
        context.console.note(
            base::cat("sandbox ", id, " goes on without us: 'sandbox rm ", id, "' deletes it"));
      }
      return std::unexpected(std::move(ready).error());
    }
    sandbox = std::move(*ready);
  }
  const bool id_only = context.global.output == OutputFormat::automatic;
  const std::string text =
      id_only ? escape_for_terminal(id) + "\n" : sandbox_details(sandbox, context.clock.wall());
  RETURN_IF_ERROR(print_value(context, sandbox, text));
  return 0;
}

}  // namespace cli
