#include "cli/format.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace cli {

using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr size_t kIndent = 2;
constexpr size_t kColumnGap = 2;

struct Character {
  uint32_t point = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// The UTF-8 character at the front of `text`, which is not empty.
Character decode_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  size_t bytes = 1;
  if (first >= 0xF0) {
    bytes = 4;
  } else if (first >= 0xE0) {
    bytes = 3;
  } else if (first >= 0xC0) {
    bytes = 2;
  }
  if (bytes > text.size() || !base::is_utf8(text.substr(0, bytes))) {
    return {};
  }
  uint32_t point = bytes == 1 ? first : first & (0x7FU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    point = (point << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  return {point, bytes};
}

bool is_control(uint32_t point) { return point < 0x20 || (point >= 0x7F && point < 0xA0); }

// Characters that make text read in another order or hide: line and paragraph separators,
// directional marks, embeddings, overrides and isolates, zero-width ones, the byte order mark.
bool is_deceptive(uint32_t point) {
  return (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x2069) || point == 0xFEFF || point == 0x061C;
}

void append_hex(std::string& out, uint32_t number, unsigned digits) {
  for (unsigned i = digits; i-- > 0;) {
    out += kHexDigits[(number >> (4 * i)) & 0xFU];
  }
}

// JSON text whose strings hold no raw character that a terminal could act on. Only strings can
// contain such characters, so replacing them by escapes keeps the meaning.
std::string make_json_inert(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const Character character = decode_character(json);
    if (character.bytes == 0) {
      json.remove_prefix(1);
      continue;
    }
    const bool layout = json[0] == '\n';
    if (!layout && (is_control(character.point) || is_deceptive(character.point))) {
      out += "\\u";
      append_hex(out, character.point, 4);
    } else {
      out += json.substr(0, character.bytes);
    }
    json.remove_prefix(character.bytes);
  }
  return out;
}

std::string scalar(const Value& value) { return make_json_inert(wire::json::serialize(value)); }

void append_json(std::string& out, const Value& value, size_t depth) {
  const std::string inner((depth + 1) * kIndent, ' ');
  const std::string outer(depth * kIndent, ' ');
  if (value.is_object() && !value.get_object().empty()) {
    std::string_view separator = "{\n";
    for (const auto& [key, item] : value.get_object()) {
      base::append(out, base::cat(separator, inner, scalar(Value(key)), ": "));
      append_json(out, item, depth + 1);
      separator = ",\n";
    }
    out += base::cat("\n", outer, "}");
  } else if (value.is_array() && !value.get_array().empty()) {
    std::string_view separator = "[\n";
    for (const auto& item : value.get_array()) {
      out += base::cat(separator, inner);
      append_json(out, item, depth + 1);
      separator = ",\n";
    }
    out += base::cat("\n", outer, "]");
  } else {
    out += scalar(value);
  }
}

// Whether YAML reads the text as this very string without quotes.
bool is_plain_yaml(std::string_view text) {
  constexpr std::string_view kSafe = "-_./";
  const auto safe = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kSafe.contains(c);
  };
  if (text.empty() || !std::ranges::all_of(text, safe)) {
    return false;
  }
  const bool letter = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
  const std::string lowered = base::lower(text);
  constexpr std::string_view kWords[] = {"true", "false", "null", "yes", "no",
                                         "on",   "off",   "y",    "n"};
  return letter && std::ranges::find(kWords, lowered) == std::end(kWords);
}

std::string yaml_scalar(const Value& value) {
  if (value.is_string() && is_plain_yaml(std::string_view(value.get_string()))) {
    return std::string(std::string_view(value.get_string()));
  }
  return scalar(value);  // JSON is YAML: strings in double quotes, numbers, [] and {}
}

bool is_block(const Value& value) {
  return (value.is_object() && !value.get_object().empty()) ||
         (value.is_array() && !value.get_array().empty());
}

void append_yaml(std::string& out, const Value& value, size_t depth, bool after_dash) {
  const std::string indent(depth * kIndent, ' ');
  if (!is_block(value)) {
    out += base::cat(after_dash ? "" : indent, yaml_scalar(value), "\n");
    return;
  }
  bool first = after_dash;
  if (value.is_object()) {
    for (const auto& [key, item] : value.get_object()) {
      out += base::cat(first ? "" : indent, yaml_scalar(Value(key)), ":");
      first = false;
      if (is_block(item)) {
        out += '\n';
        append_yaml(out, item, depth + 1, false);
      } else {
        out += base::cat(" ", yaml_scalar(item), "\n");
      }
    }
    return;
  }
  for (const auto& item : value.get_array()) {
    out += base::cat(first ? "" : indent, "- ");
    first = false;
    append_yaml(out, item, depth + 1, true);
  }
}

size_t count_columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string escape_for_terminal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = decode_character(text);
    const size_t bytes = std::max<size_t>(character.bytes, 1);
    if (character.bytes == 0 || is_control(character.point)) {
      const auto shown =
          character.bytes == 0 ? static_cast<unsigned char>(text[0]) : character.point;
      out += "\\x";
      append_hex(out, shown, 2);
    } else if (is_deceptive(character.point)) {
      out += "\\u";
      append_hex(out, character.point, 4);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string clip_columns(std::string_view text, size_t columns) {
  if (count_columns(text) <= columns) {
    return std::string(text);
  }
  std::string out;
  for (size_t column = 0; column + 1 < columns && !text.empty(); ++column) {
    const size_t bytes = std::max<size_t>(decode_character(text).bytes, 1);
    out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out + "…";
}

std::string format_json(const Value& value) {
  std::string out;
  append_json(out, value, 0);
  return out + "\n";
}

std::string format_json_line(const Value& value) { return scalar(value) + "\n"; }

std::string format_yaml(const Value& value) {
  std::string out;
  append_yaml(out, value, 0, false);
  return out;
}

std::string format_table(const std::vector<std::string>& headings,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> lines{headings};
  for (const auto& row : rows) {
    auto& line = lines.emplace_back();
    for (const auto& cell : row) {
      line.push_back(cell.empty() ? "-" : escape_for_terminal(cell));
    }
  }
  std::vector<size_t> widths(headings.size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < widths.size() && i < line.size(); ++i) {
      widths[i] = std::max(widths[i], count_columns(line[i]));
    }
  }
  std::string out;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      out += line[i];
      if (i + 1 < line.size()) {
        out.append(widths[i] - count_columns(line[i]) + kColumnGap, ' ');
      }
    }
    out += '\n';
  }
  return out;
}

std::string format_pairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  size_t width = 0;
  for (const auto& [name, value] : pairs) {
    width = value.empty() ? width : std::max(width, name.size() + 1);
  }
  std::string out;
  for (const auto& [name, value] : pairs) {
    if (!value.empty()) {
      out += base::cat(name, ":", std::string(width - name.size() - 1 + kColumnGap, ' '),
                       escape_for_terminal(value), "\n");
    }
  }
  return out;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) {
    return base::cat(bytes, " B");
  }
  double amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  const auto tenths = static_cast<int64_t>(std::floor(amount * 10));
  return base::cat(tenths / 10, ".", tenths % 10, " ", kUnits[unit]);
}

std::string format_age(std::string_view rfc3339, base::WallTime now) {
  const std::string text(rfc3339.substr(0, 19));
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  // NOLINTNEXTLINE(cert-err34-c): the count tells whether all six were read
  if (std::sscanf(text.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d", &year, &month, &day, &hour, &minute,
                  &second) != 6) {
    return std::string(rfc3339);
  }
  const std::chrono::sys_days date{std::chrono::year{year} / static_cast<int>(month) /
                                   static_cast<int>(day)};
  const auto then =
      date + std::chrono::hours(hour) + std::chrono::minutes(minute) + std::chrono::seconds(second);
  const int64_t age =
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(now - then).count());
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  if (age < 2 * kMinute) {
    return base::cat(age, "s");
  }
  if (age < 2 * kHour) {
    return base::cat(age / kMinute, "m");
  }
  return age < 2 * kDay ? base::cat(age / kHour, "h") : base::cat(age / kDay, "d");
}

std::string field_text(const Object& object, std::string_view name) {
  const Value* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) {
    return "";
  }
  if (value->is_string()) {
    return std::string(std::string_view(value->get_string()));
  }
  if (value->is_double()) {
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value->get_double());
    return {digits, end.ptr};
  }
  return wire::json::serialize(*value);
}

std::string field_lines(const wire::json::Array& items, std::string_view name) {
  std::string lines;
  for (const auto& item : items) {
    if (const auto* object = item.if_object()) {
      lines += escape_for_terminal(field_text(*object, name)) + "\n";
    }
  }
  return lines;
}

std::string format_fields(const wire::json::Object& object) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [name, value] : object) {
    if (const auto* inner = value.if_object()) {
      for (const auto& [inner_name, unused] : *inner) {
        pairs.emplace_back(base::cat(std::string_view(name), ".", std::string_view(inner_name)),
                           field_text(*inner, inner_name));
      }
    } else {
      pairs.emplace_back(std::string_view(name), field_text(object, name));
    }
  }
  return format_pairs(pairs);
}

std::string field_labels(const Object& object, std::string_view name) {
  const Value* value = object.if_contains(name);
  std::string out;
  if (value != nullptr && value->is_object()) {
    for (const auto& [key, item] : value->get_object()) {
      out += base::cat(out.empty() ? "" : ",", std::string_view(key), "=",
                       item.is_string() ? std::string_view(item.get_string()) : "");
    }
  }
  return out;
}

}  // namespace cli
