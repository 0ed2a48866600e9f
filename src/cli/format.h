// How answers are shown: JSON, YAML or a table, with whatever came from a server made inert for
// terminals. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "wire/json.h"

namespace cli {

enum class OutputFormat { automatic, json, yaml, table };

// Control characters (C0, DEL, C1), characters that reorder text and bytes that are not UTF-8
// become visible: "\x1b", "\u202e". Tabs and line ends too: a value is one line.
std::string escape_for_terminal(std::string_view text);
// At most that many characters, with "…" where it was cut.
std::string clip_columns(std::string_view text, size_t columns);

// Indented by two, one final line end; stays valid JSON, with control characters as \u00XX.
std::string format_json(const wire::json::Value& value);
// On one line.
std::string format_json_line(const wire::json::Value& value);
std::string format_yaml(const wire::json::Value& value);
// Rows under headings in columns; cells are escaped here. No rows: the headings only.
std::string format_table(const std::vector<std::string>& headings,
                         const std::vector<std::vector<std::string>>& rows);
// "Name:    value" lines; values are escaped here, empty ones left out.
std::string format_pairs(const std::vector<std::pair<std::string, std::string>>& pairs);

// "17 B", "1.5 MiB", "12.0 GiB".
std::string format_bytes(int64_t bytes);
// "45s", "12m", "3h", "9d" between an RFC 3339 time and now; the text itself when it is no time.
std::string format_age(std::string_view rfc3339, base::WallTime now);

// A field as one line of text: strings plain, absent and null "", others as JSON.
std::string field_text(const wire::json::Object& object, std::string_view name);
// That field of each item, made inert, a line each.
std::string field_lines(const wire::json::Array& items, std::string_view name);
// All fields as "Name: value" lines, those of objects in objects as "outer.inner".
std::string format_fields(const wire::json::Object& object);
// "a=1,b=2" of an object field; "" when absent.
std::string field_labels(const wire::json::Object& object, std::string_view name);

}  // namespace cli
