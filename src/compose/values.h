// Reading the loosely typed values of compose files: a number may be a text (of a variable), a list
// of NAME=value may be a mapping. Pure; every refusal names its field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/json.h"

namespace compose {

// A text, or a number or truth value as a text; nullopt for null, lists and mappings.
std::optional<std::string> scalar_text(const wire::json::Value& value);

base::Result<std::string> read_text(const wire::json::Value& value, std::string_view field);
base::Result<const wire::json::Object*> read_mapping(const wire::json::Value& value,
                                                     std::string_view field);
base::Result<bool> read_bool(const wire::json::Value& value, std::string_view field);
base::Result<int64_t> read_integer(const wire::json::Value& value, std::string_view field,
                                   int64_t least, int64_t most);
// A text alone is a list of one.
base::Result<std::vector<std::string>> read_texts(const wire::json::Value& value,
                                                  std::string_view field);
// `command`, `entrypoint`: a list is taken as it is, a text is split as a shell would, without
// expanding anything.
base::Result<std::vector<std::string>> read_words(const wire::json::Value& value,
                                                  std::string_view field);
// "1m30s", "500ms", a number of seconds is refused as Compose does: in milliseconds.
base::Result<int64_t> read_duration_ms(const wire::json::Value& value, std::string_view field);
// "512m", "1.5gb", 536870912: in bytes.
base::Result<int64_t> read_bytes(const wire::json::Value& value, std::string_view field);
// "0.5", 2: in thousandths of a cpu.
base::Result<int64_t> read_millicpus(const wire::json::Value& value, std::string_view field);

}  // namespace compose
