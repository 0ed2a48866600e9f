#include "cli/context.h"
#include "cli/resumed_events.h"
#include "cli/sandbox_view.h"

namespace cli {

using wire::json::Object;

namespace {

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

}  // namespace

Result<int> events(Context& context, const EventsOptions& options) {
  if (!options.follow) {
    return print_past(context, options.id);
  }
  RETURN_IF_ERROR(follow_events(context, sandbox_target(options.id, "/events?follow=true"),
                                [&](const StreamEvent& event) -> Result<bool> {
                                  ASSIGN_OR_RETURN(const auto object,
                                                   wire::json::parse_object(event.data));
                                  RETURN_IF_ERROR(print_event(context, object, true));
                                  return field_text(object, "type") == "deleted";
                                }));
  return 0;
}

}  // namespace cli
