#include "cli/resumed_events.h"

namespace cli {

namespace {

constexpr int kFailuresInARowMax = 6;
constexpr int kFirstPauseMilliseconds = 250;

}  // namespace

Result<void> follow_events(Context& context, const std::string& target,
                           const std::function<Result<bool>(const StreamEvent&)>& handler) {
  std::string last_id;
  bool finished = false;
  int failures = 0;
  while (true) {
    bool heard = false;
    EventStreamDecoder decoder;
    HttpRequest request{.target = target, .headers = {{"Accept", "text/event-stream"}}};
    if (!last_id.empty()) {
      request.headers.emplace_back("Last-Event-ID", last_id);
    }
    const auto take = [&](const StreamEvent& event) -> Result<void> {
      heard = true;
      last_id = event.id;
      ASSIGN_OR_RETURN(const bool last, handler(event));
      finished = finished || last;
      return {};
    };
    const auto sink = [&](const HttpResponse&, std::string_view bytes) {
      return decoder.feed(bytes, take);
    };
    const auto outcome = context.api.call(request, Repeat::no, sink);
    if (finished) {
      return {};
    }
    if (!outcome && !is_passing(outcome.error())) {
      return std::unexpected(outcome.error());
    }
    failures = heard ? 0 : failures + 1;
    if (failures >= kFailuresInARowMax) {
      return base::fail(base::ErrorCode::connection_closed, target,
                        " broke off and could not be resumed");
    }
    RETURN_IF_ERROR(context.interrupt.sleep_ms(kFirstPauseMilliseconds << failures));
  }
}

}  // namespace cli
