// network: where a sandbox may connect to, shown and changed while it runs.
#include "cli/context.h"
#include "cli/format.h"
#include "cli/sandbox_start.h"
#include "cli/sandbox_view.h"

namespace cli {

using wire::json::Object;

Result<int> network(Context& context, const NetworkOptions& options) {
  Object sandbox;
  if (options.mode.empty() && options.allow.empty()) {
    ASSIGN_OR_RETURN(sandbox, context.api.get_object(sandbox_target(options.id)));
  } else {
    const Object change{{"network", network_value(options.mode, options.allow)}};
    ASSIGN_OR_RETURN(auto changed,
                     context.api.call_json({.method = "PATCH",
                                            .target = sandbox_target(options.id),
                                            .headers = {{"Content-Type", "application/json"}},
                                            .body = wire::json::serialize(change)},
                                           Repeat::no));
    if (!changed.is_object()) {
      return base::fail(base::ErrorCode::internal, "the gateway's answer is not a sandbox");
    }
    sandbox = std::move(changed.get_object());
  }
  const auto* policy = sandbox.if_contains("network");
  RETURN_IF_ERROR(print_value(context, policy != nullptr ? *policy : wire::json::Value(),
                              network_text(sandbox) + "\n"));
  return 0;
}

}  // namespace cli
