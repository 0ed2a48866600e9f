#include "store/json_text.h"

#include "wire/json.h"

namespace store {
namespace {

// A column that this code did not write: the file is damaged.
std::unexpected<base::Error> damaged(std::string_view what) {
  return base::fail(base::ErrorCode::internal, "database: a column does not hold ", what);
}

}  // namespace

std::string list_text(const std::vector<std::string>& list) {
  if (list.empty()) {
    return "[]";
  }
  wire::json::Array array;
  for (const std::string& item : list) {
    array.emplace_back(item);
  }
  return wire::json::serialize(array);
}

Result<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> out;
  if (text == "[]") {
    return out;
  }
  const auto value = wire::json::parse(text);
  if (!value || !value->is_array()) {
    return damaged("a list");
  }
  for (const auto& item : value->get_array()) {
    if (!item.is_string()) {
      return damaged("a list of texts");
    }
    out.emplace_back(item.get_string());
  }
  return out;
}

std::string map_text(const std::map<std::string, std::string>& map) {
  if (map.empty()) {
    return "{}";
  }
  wire::json::Object object;
  for (const auto& [key, value] : map) {
    object[key] = value;
  }
  return wire::json::serialize(object);
}

Result<std::map<std::string, std::string>> parse_map(std::string_view text) {
  std::map<std::string, std::string> out;
  if (text == "{}") {
    return out;
  }
  const auto value = wire::json::parse(text);
  if (!value || !value->is_object()) {
    return damaged("a map");
  }
  for (const auto& field : value->get_object()) {
    if (!field.value().is_string()) {
      return damaged("a map of texts");
    }
    out.emplace(field.key(), field.value().get_string());
  }
  return out;
}

std::string seal_text(std::string_view bytes) { return base::base64(bytes); }

Result<std::string> unseal_text(std::string_view text) {
  auto bytes = base::decode_base64(text);
  if (!bytes) {
    return damaged("base64");
  }
  return std::move(*bytes);
}

}  // namespace store
