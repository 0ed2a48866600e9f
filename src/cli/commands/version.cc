#include "cli/context.h"

namespace cli {

namespace {

constexpr int kVersionWaitSeconds = 5;  // the gateway's version is a courtesy

}  // namespace

Result<int> version(Context& context, const VersionOptions&) {
  wire::json::Object versions{{"cli", SANDBOX_VERSION}, {"gateway", nullptr}};
  std::string text = "cli      " SANDBOX_VERSION "\n";
  const HttpRequest request{.target = "/healthz", .silence_seconds_max = kVersionWaitSeconds};
  const auto answer = context.api.call_json(request, Repeat::no);
  if (answer && answer->is_object()) {
    const std::string gateway = field_text(answer->get_object(), "version");
    versions["gateway"] = gateway;
    text +=
        base::cat("gateway  ", gateway.empty() ? "unknown" : escape_for_terminal(gateway), "\n");
  } else if (!answer) {
    context.console.note(
        base::cat("no gateway at ", context.http.url(), ": ", answer.error().message));
  }
  RETURN_IF_ERROR(print_value(context, versions, text));
  return 0;
}

}  // namespace cli
