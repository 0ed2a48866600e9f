// identity: tokens that say who a sandbox is, and the keys that sign them.
#include "cli/context.h"

namespace cli {
namespace {

using wire::json::Object;
using wire::json::Value;

Result<int> print_keys(Context& context, const Value& answer) {
  std::vector<std::vector<std::string>> rows;
  const Value* items = answer.is_object() ? answer.get_object().if_contains("items") : nullptr;
  if (items == nullptr || !items->is_array()) {
    return base::fail(base::ErrorCode::internal, "the gateway answered without a list");
  }
  for (const Value& item : items->get_array()) {
    if (item.is_object()) {
      const Object& row = item.get_object();
      rows.push_back({field_text(row, "id"), field_text(row, "state"),
                      field_text(row, "created_at"), field_text(row, "ended_at")});
    }
  }
  RETURN_IF_ERROR(
      print_value(context, *items, format_table({"ID", "STATE", "CREATED", "ENDED"}, rows)));
  return 0;
}

}  // namespace

Result<int> identity_token(Context& context, const IdentityTokenOptions& options) {
  Object body;
  if (!options.audience.empty()) {
    body["audience"] = options.audience;
  }
  ASSIGN_OR_RETURN(
      const auto answer,
      context.api.call_json(
          {.method = "POST",
           .target = base::cat("/sandboxes/", encode_segment(options.id), "/identity-token"),
           .body = wire::json::serialize(body)},
          Repeat::yes));
  const std::string token =
      answer.is_object() ? field_text(answer.get_object(), "token") : std::string();
  RETURN_IF_ERROR(print_value(context, answer, token + "\n"));
  return 0;
}

Result<int> identity_keys(Context& context) {
  ASSIGN_OR_RETURN(
      const auto answer,
      context.api.call_json({.method = "GET", .target = "/identity/keys"}, Repeat::yes));
  return print_keys(context, answer);
}

Result<int> identity_rotate(Context& context) {
  ASSIGN_OR_RETURN(
      const auto answer,
      context.api.call_json({.method = "POST", .target = "/identity/keys/rotate"}, Repeat::no));
  return print_keys(context, answer);
}

}  // namespace cli
