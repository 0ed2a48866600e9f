// sign-in: where somebody is signed in, and ending that.
#include "cli/context.h"

namespace cli {
namespace {

using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

std::string sign_in_table(const Array& items, base::WallTime now) {
  std::vector<std::vector<std::string>> rows;
  for (const Value& item : items) {
    if (!item.is_object()) {
      continue;
    }
    const Object& row = item.get_object();
    rows.push_back({field_text(row, "id"), field_text(row, "kind"), field_text(row, "subject"),
                    field_text(row, "remote"),
                    base::cat(format_age(field_text(row, "created_at"), now), " ago"),
                    base::cat(format_age(field_text(row, "last_used_at"), now), " ago"),
                    field_text(row, "expires_at"),
                    field_text(row, "current") == "true" ? "this one" : ""});
  }
  return format_table({"ID", "KIND", "SUBJECT", "FROM", "BEGUN", "USED", "EXPIRES", "NOTE"}, rows);
}

}  // namespace

Result<int> sign_in_list(Context& context, const SignInListOptions& options) {
  std::string query;
  if (!options.subject.empty()) {
    add_parameter(query, "subject", options.subject);
  }
  if (options.all) {
    add_parameter(query, "scope", "all");
  }
  ASSIGN_OR_RETURN(const auto items, context.api.get_list("/sign-ins", query));
  if (options.quiet) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "id")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, sign_in_table(items, context.clock.wall())));
  return 0;
}

Result<int> sign_in_end(Context& context, const SignInEndOptions& options) {
  if (!options.all && options.ids.empty()) {
    return base::fail_field("ID", "name the sign-ins to end, or --all");
  }
  if (options.all) {
    std::string query;
    if (!options.subject.empty()) {
      add_parameter(query, "subject", options.subject);
    }
    const std::string target = base::cat("/sign-ins", query.empty() ? "" : "?", query);
    ASSIGN_OR_RETURN(const auto answer,
                     context.api.call_json({.method = "DELETE", .target = target}, Repeat::yes));
    const Object* object = answer.if_object();
    RETURN_IF_ERROR(print_value(
        context, answer,
        base::cat(object == nullptr ? "?" : field_text(*object, "ended"), " sign-ins ended\n")));
    return 0;
  }
  for (const std::string& id : options.ids) {
    RETURN_IF_ERROR(context.api.call(
        {.method = "DELETE", .target = base::cat("/sign-ins/", encode_segment(id))}, Repeat::no));
    RETURN_IF_ERROR(context.console.write_out(escape_for_terminal(id) + "\n"));
  }
  return 0;
}

}  // namespace cli
