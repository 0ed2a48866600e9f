#include <limits>

#include "cli/context.h"
#include "cli/sandbox_view.h"
#include "cli/variables.h"

namespace cli {

Result<int> list(Context& context, const ListOptions& options) {
  std::string query;
  const std::pair<std::string_view, const std::string&> filters[] = {{"state", options.state},
                                                                     {"image", options.image},
                                                                     {"owner", options.owner},
                                                                     {"team", options.team}};
  for (const auto& [name, value] : filters) {
    if (!value.empty()) {
      add_parameter(query, name, value);
    }
  }
  RETURN_IF_ERROR(parse_labels(options.labels));
  for (const auto& label : options.labels) {
    add_parameter(query, "label", label);
  }
  if (options.all_teams) {
    add_parameter(query, "scope", "all");
  }
  if (options.all) {
    add_parameter(query, "all", "true");
  }
  const size_t items_max =
      options.limit > 0 ? static_cast<size_t>(options.limit) : std::numeric_limits<size_t>::max();
  ASSIGN_OR_RETURN(const auto items, context.api.get_list("/sandboxes", query, items_max));
  if (options.quiet) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "id")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, sandbox_table(items, context.clock.wall())));
  return 0;
}

}  // namespace cli
