#include "cli/context.h"
#include "cli/remote_command.h"
#include "cli/sandbox_start.h"

namespace cli {

namespace {

constexpr int kDeleteWaitSeconds = 30;

// Deletes although a signal may be pending; a second one ends the wait.
void delete_sandbox(Context& context, const std::string& id) {
  const int signal = context.interrupt.signal();
  context.interrupt.clear();
  const auto gone = context.api.remove(sandbox_target(id), kDeleteWaitSeconds);
  if (!gone && gone.error().code != base::ErrorCode::not_found) {
    context.console.note(base::cat("sandbox ", id, " may still be there: ", gone.error().message));
  }
  if (signal != 0) {
    context.interrupt.clear();
  }
}

}  // namespace

Result<int> run(Context& context, const RunOptions& options) {
  ASSIGN_OR_RETURN(const auto sandbox, start_sandbox(context, options.create));
  const std::string id = field_text(sandbox, "id");
  Result<int> outcome = 0;
  if (auto ready = wait_until_ready(context, id); ready) {
    outcome = run_command(context, {.id = id}, options.command, SandboxAfter::goes);
  } else {
    outcome = std::unexpected(std::move(ready).error());
  }
  const bool cancelled = !outcome && outcome.error().code == base::ErrorCode::cancelled;
  const int signal = cancelled ? context.interrupt.signal() : 0;
  delete_sandbox(context, id);
  if (signal != 0) {
    return kExitSignalBase + signal;
  }
  return outcome;
}

}  // namespace cli
