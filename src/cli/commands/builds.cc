// builds: which images were built, or are being built.
#include <limits>

#include "cli/context.h"

namespace cli {

using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

namespace {

constexpr size_t kDigestShown = 12;

std::string build_table(const Array& items, base::WallTime now) {
  std::vector<std::vector<std::string>> rows;
  for (const Value& item : items) {
    if (!item.is_object()) {
      continue;
    }
    const Object& row = item.get_object();
    const std::string reason = field_text(row, "reason");
    rows.push_back({field_text(row, "id"), field_text(row, "state"), reason.empty() ? "-" : reason,
                    field_text(row, "team"), field_text(row, "owner"),
                    base::cat(format_age(field_text(row, "created_at"), now), " ago"),
                    field_text(row, "digest").substr(0, kDigestShown)});
  }
  return format_table({"ID", "STATE", "REASON", "TEAM", "OWNER", "CREATED", "DIGEST"}, rows);
}

}  // namespace

Result<int> build_list(Context& context, const BuildListOptions& options) {
  std::string query;
  if (!options.team.empty()) {
    add_parameter(query, "team", options.team);
  }
  if (options.all_teams) {
    add_parameter(query, "scope", "all");
  }
  const size_t items_max =
      options.limit > 0 ? static_cast<size_t>(options.limit) : std::numeric_limits<size_t>::max();
  ASSIGN_OR_RETURN(const auto items, context.api.get_list("/builds", query, items_max));
  if (options.quiet) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "id")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, build_table(items, context.clock.wall())));
  return 0;
}

}  // namespace cli
