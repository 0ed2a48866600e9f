#include "compose/merge.h"

#include <algorithm>
#include <array>
#include <string>

#include "compose/marks.h"
#include "compose/refusal.h"
#include "compose/values.h"

namespace compose {
namespace {

using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

template <size_t N>
bool is_one_of(std::string_view key, const std::array<std::string_view, N>& keys) {
  return std::ranges::find(keys, key) != keys.end();
}

// Of a service, whatever the file above says.
constexpr std::array<std::string_view, 2> kReplaced{"command", "entrypoint"};
constexpr std::array<std::string_view, 3> kMappings{"environment", "labels", "annotations"};
constexpr std::array<std::string_view, 2> kByName{"depends_on", "networks"};
// One text stands for a list of one.
constexpr std::array<std::string_view, 3> kLists{"env_file", "tmpfs", "dns"};

std::string key_path(std::string_view field, std::string_view key) {
  return field.empty() ? std::string(key) : base::cat(field, ".", key);
}

std::string_view kind_of(const Value& value) {
  return value.is_object() ? "a mapping" : value.is_array() ? "a list" : "a value";
}

Result<void> merge_values(Value& into, Value over, const std::string& field);

Result<void> merge_objects(Object& into, Object over, const std::string& field) {
  for (auto& [key, value] : over) {
    auto* const mine = into.if_contains(key);
    if (take_mark(into, key, value)) {
      continue;
    }
    if (mine == nullptr) {
      into[key] = std::move(value);
    } else {
      RETURN_IF_ERROR(merge_values(*mine, std::move(value), key_path(field, key)));
    }
  }
  return {};
}

Result<void> merge_values(Value& into, Value over, const std::string& field) {
  if (over.is_null()) {
    return {};
  }
  if (into.is_null()) {
    into = std::move(over);
    return {};
  }
  if (into.is_object() && over.is_object()) {
    return merge_objects(into.get_object(), std::move(over.get_object()), field);
  }
  if (into.is_array() && over.is_array()) {
    for (Value& item : over.get_array()) {
      if (std::ranges::find(into.get_array(), item) == into.get_array().end()) {
        into.get_array().push_back(std::move(item));
      }
    }
    return {};
  }
  const bool both_plain =
      !into.is_object() && !into.is_array() && !over.is_object() && !over.is_array();
  if (!both_plain) {
    return refuse(field, kind_of(over), " cannot be merged over ", kind_of(into));
  }
  into = std::move(over);
  return {};
}

// Where a volume or a port is told apart from another of the same list: its place inside.
std::string target_of(const Value& item) {
  if (item.is_object()) {
    const Value* target = item.get_object().if_contains("target");
    return target == nullptr ? "" : scalar_text(*target).value_or("");
  }
  std::string text = scalar_text(item).value_or("");
  const size_t first = text.find(':');
  if (first == std::string::npos) {
    return text;
  }
  return text.substr(first + 1, text.find(':', first + 1) - first - 1);
}

// A later volume on the same folder takes the earlier one's place.
void replace_same_targets(Array& into, Array over) {
  for (Value& item : over) {
    const std::string target = target_of(item);
    const auto same =
        std::ranges::find_if(into, [&](const Value& mine) { return target_of(mine) == target; });
    if (same != into.end() && !target.empty()) {
      *same = std::move(item);
    } else {
      into.push_back(std::move(item));
    }
  }
}

}  // namespace

Result<void> normalise_service(Object& service, const std::string& field) {
  for (auto& [key, given] : service) {
    const std::string path = key_path(field, key);
    Value* const override = marked(given, kOverride);
    if (marked(given, kReset) != nullptr) {
      continue;
    }
    Value& value = override == nullptr ? given : *override;
    if (value.is_null()) {
      continue;
    }
    if (is_one_of(key, kMappings)) {
      ASSIGN_OR_RETURN(value, as_mapping(value, path));
    } else if (is_one_of(key, kByName)) {
      ASSIGN_OR_RETURN(value, by_name(value, path));
    } else if (key == "extra_hosts") {
      ASSIGN_OR_RETURN(value, as_mapping(value, path, ':'));
    } else if (is_one_of(key, kLists) && !value.is_array()) {
      value = Array{value};
    } else if (key == "build" && value.is_string()) {
      value = Object{{"context", value}};
    }
    if (key == "build" && value.is_object()) {
      Value* arguments = value.get_object().if_contains("args");
      if (arguments != nullptr && !arguments->is_null()) {
        ASSIGN_OR_RETURN(*arguments, as_mapping(*arguments, path + ".args"));
      }
    }
  }
  return {};
}

Result<void> merge_service(Object& into, Object over, const std::string& field) {
  for (auto& [key, value] : over) {
    if (take_mark(into, key, value)) {
      continue;
    }
    Value* const mine = into.if_contains(key);
    const std::string path = key_path(field, key);
    if (mine == nullptr || is_one_of(key, kReplaced)) {
      into[key] = std::move(value);
    } else if (key == "volumes" && mine->is_array() && value.is_array()) {
      replace_same_targets(mine->get_array(), std::move(value.get_array()));
    } else if (key == "healthcheck" && value.is_object() && mine->is_object()) {
      if (value.get_object().contains("test")) {
        mine->get_object().stable_erase("test");
      }
      RETURN_IF_ERROR(merge_values(*mine, std::move(value), path));
    } else {
      RETURN_IF_ERROR(merge_values(*mine, std::move(value), path));
    }
  }
  return {};
}

namespace {

Result<void> merge_services(Object& into, Object over) {
  for (auto& [name, given] : over) {
    const std::string field = base::cat("services.", std::string_view(name));
    Value* const override = marked(given, kOverride);
    if (override != nullptr || marked(given, kReset) != nullptr) {
      into.stable_erase(name);
    }
    if (marked(given, kReset) != nullptr) {
      continue;
    }
    Value& service = override == nullptr ? given : *override;
    if (!service.is_object()) {
      return refuse(field, "must be a mapping");
    }
    RETURN_IF_ERROR(normalise_service(service.get_object(), field));
    Value* const mine = into.if_contains(name);
    if (mine == nullptr) {
      into[name] = std::move(service);
    } else {
      RETURN_IF_ERROR(merge_service(mine->get_object(), std::move(service.get_object()), field));
    }
  }
  return {};
}

}  // namespace

Result<void> take_merge_keys(Value& value, std::string_view field) {
  if (value.is_array()) {
    for (Value& item : value.get_array()) {
      RETURN_IF_ERROR(take_merge_keys(item, field));
    }
    return {};
  }
  if (!value.is_object()) {
    return {};
  }
  Object& object = value.get_object();
  for (auto& [key, inner] : object) {
    RETURN_IF_ERROR(take_merge_keys(inner, field.empty() ? std::string(key) : std::string(field)));
  }
  const Value* const found = object.if_contains("<<");
  if (found == nullptr) {
    return {};
  }
  const Value merged = *found;
  object.stable_erase("<<");
  const Array sources = merged.is_array() ? merged.get_array() : Array{merged};
  for (const Value& source : sources) {
    if (!source.is_object()) {
      return refuse(field, "'<<' must name mappings");
    }
    for (const auto& [key, inner] : source.get_object()) {
      if (!object.contains(key)) {
        object[key] = inner;
      }
    }
  }
  return {};
}

Result<void> merge_file(Object& into, Object over) {
  for (auto& [key, value] : over) {
    if (take_mark(into, key, value)) {
      continue;
    }
    if (key == "services") {
      if (!value.is_object()) {
        return refuse("services", "must be a mapping");
      }
      Value& mine = into[key];
      if (mine.is_null()) {
        mine = Object{};
      }
      RETURN_IF_ERROR(merge_services(mine.get_object(), std::move(value.get_object())));
    } else if (Value* const mine = into.if_contains(key)) {
      RETURN_IF_ERROR(merge_values(*mine, std::move(value), std::string(key)));
    } else {
      into[key] = std::move(value);
    }
  }
  return {};
}

Result<Object> as_mapping(const Value& value, std::string_view field, char separator) {
  Object out;
  if (value.is_object()) {
    for (const auto& [key, inner] : value.get_object()) {
      if (inner.is_null() || is_marked(inner)) {
        out[key] = inner;
        continue;
      }
      ASSIGN_OR_RETURN(out[key], read_text(inner, base::cat(field, ".", std::string_view(key))));
    }
    return out;
  }
  if (!value.is_array()) {
    return refuse(field, "must be a mapping or a list");
  }
  for (const Value& item : value.get_array()) {
    ASSIGN_OR_RETURN(const std::string text, read_text(item, field));
    size_t at = text.find(separator);
    if (separator == ':') {
      at = std::min(at, text.find('='));  // extra_hosts takes both
    }
    const std::string name = text.substr(0, at);
    if (at == std::string::npos) {
      out[name] = nullptr;
    } else {
      out[name] = text.substr(at + 1);
    }
  }
  return out;
}

Result<Object> by_name(const Value& value, std::string_view field) {
  if (value.is_object()) {
    return value.get_object();
  }
  ASSIGN_OR_RETURN(const auto names, read_texts(value, field));
  Object out;
  for (const std::string& name : names) {
    out[name] = nullptr;
  }
  return out;
}

}  // namespace compose
