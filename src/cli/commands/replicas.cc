#include "cli/context.h"

namespace cli {
namespace {

using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

std::string replica_table(const Array& items, base::WallTime now) {
  std::vector<std::vector<std::string>> rows;
  for (const Value& item : items) {
    if (!item.is_object()) {
      continue;
    }
    const Object& replica = item.get_object();
    std::string note = field_text(replica, "draining") == "true" ? "draining" : "";
    if (field_text(replica, "answers") == "true") {
      note += note.empty() ? "answers" : ", answers";
    }
    rows.push_back({field_text(replica, "id"), field_text(replica, "address"),
                    field_text(replica, "version"),
                    format_age(field_text(replica, "started_at"), now),
                    field_text(replica, "connections"), std::move(note)});
  }
  return format_table({"ID", "ADDRESS", "VERSION", "UP", "CONNECTIONS", "NOTE"}, rows);
}

}  // namespace

Result<int> replicas(Context& context, const ReplicasOptions&) {
  const HttpRequest request{.target = "/replicas"};
  ASSIGN_OR_RETURN(const auto answer, context.api.call_json(request, Repeat::yes));
  const Object* all = answer.if_object();
  const Value* items = all == nullptr ? nullptr : all->if_contains("items");
  if (items == nullptr || !items->is_array()) {
    return base::fail(base::ErrorCode::internal, "the answer on replicas has no items");
  }
  RETURN_IF_ERROR(
      print_value(context, *items, replica_table(items->get_array(), context.clock.wall())));
  return 0;
}

}  // namespace cli
