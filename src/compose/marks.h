// `!reset` and `!override` of a later compose file: take a key away, or put what stands behind it
// in the place of what earlier files have. The YAML reader gives them as {"!reset": value}. Pure.
#pragma once

#include <string_view>

#include "wire/json.h"

namespace compose {

inline constexpr std::string_view kReset = "!reset";
inline constexpr std::string_view kOverride = "!override";

// What stands behind that mark, or null.
wire::json::Value* marked(wire::json::Value& value, std::string_view mark);

bool is_marked(const wire::json::Value& value);

// A marked value of a later file into an earlier one's mapping; false: it has no mark.
bool take_mark(wire::json::Object& into, std::string_view key, wire::json::Value& value);

// What is left of marks, which had nothing to change. Deep.
void drop_marks(wire::json::Value& value);

}  // namespace compose
