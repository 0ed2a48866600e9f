// How a later compose file changes an earlier one: mappings are merged key by key, lists are
// joined, and what can be written as a list of NAME=value or as a mapping is a mapping before that.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "wire/json.h"

namespace compose {

// "<<" of YAML: the keys of the mappings it names, where the mapping has none of its own. Deep.
base::Result<void> take_merge_keys(wire::json::Value& value, std::string_view field);

// A whole file over another. Errors: compose_invalid where one has a list and the other a mapping.
base::Result<void> merge_file(wire::json::Object& into, wire::json::Object over);

// A service in the shape that merging wants, whichever of the allowed ones was written.
base::Result<void> normalise_service(wire::json::Object& service, const std::string& field);
// One over another, both in that shape.
base::Result<void> merge_service(wire::json::Object& into, wire::json::Object over,
                                 const std::string& field);

// NAME=value lists and mappings of texts as a mapping; a name without a value is null.
base::Result<wire::json::Object> as_mapping(const wire::json::Value& value, std::string_view field,
                                            char separator = '=');
// Lists of names and mappings by name as a mapping: null where there was only the name.
base::Result<wire::json::Object> by_name(const wire::json::Value& value, std::string_view field);

}  // namespace compose
