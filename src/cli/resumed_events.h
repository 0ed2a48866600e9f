// A stream of Server-Sent Events over as many connections as it takes: what was seen is told by
// Last-Event-ID, so nothing is shown twice or missed as far as the gateway remembers.
#pragma once

#include "cli/context.h"
#include "cli/event_stream.h"

namespace cli {

// Gives each event to `handler` until that answers that it was the last one. Fails when the stream
// broke off several times without one event.
Result<void> follow_events(Context& context, const std::string& target,
                           const std::function<Result<bool>(const StreamEvent&)>& handler);

}  // namespace cli
