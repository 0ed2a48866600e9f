#include <array>

#include "cli/context.h"

namespace cli {
namespace {

using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

constexpr std::array<std::string_view, 4> kDimensions{"cpus", "memory_mb", "storage_mb",
                                                      "sandboxes"};

const Object* object_field(const Object& object, std::string_view name) {
  const Value* value = object.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

std::string amount(const Object& team, std::string_view group, std::string_view dimension) {
  const Object* amounts = object_field(team, group);
  return amounts == nullptr ? "" : field_text(*amounts, dimension);
}

// "6 cpus, 512 memory_mb": those that are not 0.
std::string amounts_in_words(const Object& team, std::string_view group) {
  std::string text;
  for (const std::string_view dimension : kDimensions) {
    const std::string value = amount(team, group, dimension);
    if (!value.empty() && value != "0") {
      text += base::cat(text.empty() ? "" : ", ", value, " ", dimension);
    }
  }
  return text.empty() ? "-" : text;
}

// Of each dimension "used/quota"; a quota that is not set is "-".
std::string quota_table(const Array& items) {
  std::vector<std::vector<std::string>> rows;
  for (const Value& item : items) {
    if (!item.is_object()) {
      continue;
    }
    const Object& team = item.get_object();
    std::vector<std::string> row{field_text(team, "team")};
    for (const std::string_view dimension : kDimensions) {
      const std::string quota = amount(team, "quota", dimension);
      row.push_back(base::cat(amount(team, "used", dimension), "/", quota.empty() ? "-" : quota));
    }
    row.push_back(amounts_in_words(team, "borrowed"));
    row.push_back(amounts_in_words(team, "lent"));
    row.push_back(field_text(team, "queued"));
    row.emplace_back(field_text(team, "drained") == "true" ? "drained" : "");
    rows.push_back(std::move(row));
  }
  return format_table({"TEAM", "CPUS", "MEMORY_MB", "STORAGE_MB", "SANDBOXES", "BORROWED", "LENT",
                       "QUEUED", "NOTE"},
                      rows);
}

}  // namespace

Result<int> quota(Context& context, const QuotaOptions&) {
  const HttpRequest request{.target = "/quotas"};
  ASSIGN_OR_RETURN(const auto answer, context.api.call_json(request, Repeat::yes));
  const Object* quotas = answer.if_object();
  const Value* items = quotas == nullptr ? nullptr : quotas->if_contains("items");
  if (items == nullptr || !items->is_array()) {
    return base::fail(base::ErrorCode::internal, "the answer on quotas has no items");
  }
  RETURN_IF_ERROR(print_value(context, answer, quota_table(items->get_array())));
  return 0;
}

}  // namespace cli
