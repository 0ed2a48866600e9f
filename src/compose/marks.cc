#include "compose/marks.h"

#include <vector>

namespace compose {

using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

Value* marked(Value& value, std::string_view mark) {
  if (!value.is_object() || value.get_object().size() != 1) {
    return nullptr;
  }
  return value.get_object().if_contains(mark);
}

bool is_marked(const Value& value) {
  return value.is_object() && value.get_object().size() == 1 &&
         (value.get_object().contains(kReset) || value.get_object().contains(kOverride));
}

bool take_mark(Object& into, std::string_view key, Value& value) {
  if (marked(value, kReset) != nullptr) {
    into.stable_erase(key);
    return true;
  }
  if (Value* const inner = marked(value, kOverride)) {
    into[key] = Value(std::move(*inner));
    return true;
  }
  return false;
}

void drop_marks(Value& value) {
  if (Value* const inner = marked(value, kOverride)) {
    value = Value(std::move(*inner));
  }
  if (value.is_array()) {
    Array kept;
    for (Value& item : value.get_array()) {
      if (marked(item, kReset) == nullptr) {
        drop_marks(item);
        kept.push_back(std::move(item));
      }
    }
    value = std::move(kept);
  } else if (value.is_object()) {
    Object& object = value.get_object();
    std::vector<std::string> reset;
    for (auto& [key, inner] : object) {
      if (marked(inner, kReset) != nullptr) {
        reset.emplace_back(key);
      } else {
        drop_marks(inner);
      }
    }
    for (const std::string& key : reset) {
      object.stable_erase(key);
    }
  }
}

}  // namespace compose
