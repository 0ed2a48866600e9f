// logs and metrics: how a sandbox is doing.
#include <algorithm>

#include "cli/context.h"

namespace cli {

using wire::json::Object;

namespace {

constexpr int kFailuresInARowMax = 6;
constexpr int kFirstPauseMilliseconds = 250;

// Where an answer begins: later than asked for when the front of the log is gone.
uint64_t start_of(const HttpResponse& head, uint64_t asked) {
  const std::string* told = head.find("x-log-start-offset");
  const auto start = told == nullptr ? std::nullopt : base::parse_number<uint64_t>(*told);
  return std::max(start.value_or(asked), asked);
}

}  // namespace

Result<int> logs(Context& context, const LogsOptions& options) {
  uint64_t offset = 0;
  int failures = 0;
  while (true) {
    std::string query = base::cat("offset=", offset, options.follow ? "&follow=true" : "");
    if (!options.container.empty()) {
      add_parameter(query, "container", options.container);
    }
    const HttpRequest request{.target = sandbox_target(options.id, "/logs?" + query)};
    uint64_t received = 0;
    uint64_t start = offset;
    const auto outcome = context.api.call(request, Repeat::no,
                                          [&](const HttpResponse& head, std::string_view bytes) {
                                            start = start_of(head, offset);
                                            received += bytes.size();
                                            return context.console.write_out(bytes);
                                          });
    if (start > offset) {
      context.console.note(base::cat(start - offset, " bytes of the output are no longer kept"));
    }
    offset = start + received;
    if (outcome) {
      return 0;
    }
    failures = received > 0 ? 0 : failures + 1;
    if (!is_passing(outcome.error()) || failures >= kFailuresInARowMax) {
      return std::unexpected(outcome.error());
    }
    RETURN_IF_ERROR(context.interrupt.sleep_ms(kFirstPauseMilliseconds << failures));
  }
}

Result<int> metrics(Context& context, const MetricsOptions& options) {
  ASSIGN_OR_RETURN(const auto answer,
                   context.api.get_object(sandbox_target(options.id, "/metrics")));
  // The series is for programs.
  const auto* now = answer.if_contains("now");
  const Object* shown = now == nullptr ? &answer : now->if_object();
  RETURN_IF_ERROR(print_value(context, answer, format_fields(shown == nullptr ? answer : *shown)));
  return 0;
}

}  // namespace cli
