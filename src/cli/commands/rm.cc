#include "cli/context.h"

namespace cli {

namespace {

constexpr int kWaitSeconds = 60;

// Whether it is certainly gone.
Result<bool> wait_until_gone(Context& context, const std::string& id) {
  Progress progress(context.console, context.clock);
  while (true) {
    const int wait = progress.visible() ? 1 : kWaitSeconds;
    auto gone = context.api.remove(sandbox_target(id), wait);
    if (!gone && gone.error().code == base::ErrorCode::not_found) {
      return true;  // it was there when its deletion was accepted
    }
    if (!gone || *gone) {
      return gone;
    }
    progress.show(base::cat("deleting ", id, ", ", progress.elapsed_seconds(), " s"));
  }
}

}  // namespace

Result<int> remove(Context& context, const RemoveOptions& options) {
  // All deletions start before the first is waited for.
  std::vector<std::pair<std::string, bool>> accepted;
  int exit_code = 0;
  for (const auto& id : options.ids) {
    const auto gone = context.api.remove(sandbox_target(id), 0);
    if (gone) {
      accepted.emplace_back(id, *gone);
      continue;
    }
    if (gone.error().code == base::ErrorCode::cancelled) {
      return std::unexpected(gone.error());
    }
    context.console.note(
        base::cat("error: ", base::to_string(gone.error().code), ": ", gone.error().message));
    exit_code = kExitOwnError;
  }
  for (const auto& [id, gone_already] : accepted) {
    if (options.wait && !gone_already) {
      RETURN_IF_ERROR(wait_until_gone(context, id));
    }
    RETURN_IF_ERROR(context.console.write_out(escape_for_terminal(id) + "\n"));
  }
  return exit_code;
}

}  // namespace cli
