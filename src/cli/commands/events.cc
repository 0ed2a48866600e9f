#include "cli/context.h"
#include "cli/event_stream.h"
#include "cli/sandbox_view.h"

namespace cli {

using base::ErrorCode;
using wire::json::Object;

namespace {

constexpr int kFailuresInARowMax = 6;
constexpr int kFirstPauseMilliseconds = 250;

Result<void> print_event(Context& context, const Object& event, bool following) {
  switch (context.global.output) {
    case OutputFormat::json:
      return context.console.write_out(format_json_line(event));
    case OutputFormat::yaml:
      return context.console.write_out(following ? "---\n" + format_yaml(event)
                                                 : format_yaml(event));
    default:
      return context.console.write_out(event_line(event));
  }
}

Result<int> print_past(Context& context, const std::string& id) {
  ASSIGN_OR_RETURN(const auto items,
                   context.api.get_list(sandbox_target(id, "/events"), "", SIZE_MAX));
  std::string table;
  for (const auto& item : items) {
    table += item.is_object() ? event_line(item.get_object()) : "";
  }
  RETURN_IF_ERROR(print_value(context, items, table));
  return 0;
}

// Follows one sandbox over as many connections as it takes.
class Follower {
 public:
  Follower(Context& context, const std::string& id) : context_(context), id_(id) {}

  Result<int> run() {
    int failures = 0;
    while (!deleted_) {
      const auto before = last_id_;
      const auto outcome = read_once();
      failures = last_id_ != before ? 0 : failures + 1;
      if (deleted_) {
        break;
      }
      if (!outcome && !is_passing(outcome.error())) {
        return std::unexpected(outcome.error());
      }
      if (failures >= kFailuresInARowMax) {
        return base::fail(ErrorCode::connection_closed, "the events of ", id_,
                          " broke off and could not be resumed");
      }
      RETURN_IF_ERROR(context_.interrupt.sleep_ms(kFirstPauseMilliseconds << failures));
    }
    return 0;
  }

 private:
  static bool is_passing(const base::Error& error) {
    return error.code == ErrorCode::connection_closed || error.code == ErrorCode::unavailable ||
           error.code == ErrorCode::deadline_exceeded || error.code == ErrorCode::draining ||
           error.code == ErrorCode::overloaded || error.code == ErrorCode::rate_limited;
  }

  Result<void> read_once() {
    EventStreamDecoder decoder;
    HttpRequest request{.target = sandbox_target(id_, "/events?follow=true"),
                        .headers = {{"Accept", "text/event-stream"}}};
    if (!last_id_.empty()) {
      request.headers.emplace_back("Last-Event-ID", last_id_);
    }
    const auto handler = [this](const StreamEvent& event) { return take(event); };
    const auto sink = [&](const HttpResponse&, std::string_view bytes) {
      return decoder.feed(bytes, handler);
    };
    RETURN_IF_ERROR(context_.api.call(request, Repeat::no, sink));
    return {};
  }

  Result<void> take(const StreamEvent& event) {
    ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(event.data));
    last_id_ = event.id;
    deleted_ = field_text(object, "type") == "deleted";
    return print_event(context_, object, true);
  }

  Context& context_;
  const std::string& id_;
  std::string last_id_;
  bool deleted_ = false;
};

}  // namespace

Result<int> events(Context& context, const EventsOptions& options) {
  if (!options.follow) {
    return print_past(context, options.id);
  }
  return Follower(context, options.id).run();
}

}  // namespace cli
