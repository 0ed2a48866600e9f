#include "cli/context.h"
#include "cli/sandbox_start.h"
#include "cli/sandbox_view.h"

namespace cli {

namespace {

constexpr int64_t kWaitSecondsMax = 300;  // of one request; longer waits ask again

}  // namespace

Result<int> get(Context& context, const GetOptions& options) {
  const auto end = context.clock.steady() + std::chrono::seconds(options.wait_sec);
  int64_t left = options.wait_sec;
  Progress progress(context.console, context.clock);
  while (true) {
    const int64_t wait_max = progress.visible() ? 1 : kWaitSecondsMax;
    const int wait = static_cast<int>(std::min(left, wait_max));
    const std::string query = wait > 0 ? base::cat("?wait=", wait) : "";
    ASSIGN_OR_RETURN(const auto sandbox,
                     context.api.get_object(sandbox_target(options.id, query), wait));
    const std::string state = field_text(sandbox, "state");
    left = std::chrono::duration_cast<std::chrono::seconds>(end - context.clock.steady()).count();
    if (left <= 0 || is_settled(state)) {
      RETURN_IF_ERROR(
          print_value(context, sandbox, sandbox_details(sandbox, context.clock.wall())));
      return 0;
    }
    progress.show(
        base::cat("sandbox ", options.id, " is ", state, ", ", progress.elapsed_seconds(), " s"));
  }
}

}  // namespace cli
