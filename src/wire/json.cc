#include "wire/json.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/stream_parser.hpp>
#include <cmath>
#include <utility>

#include "base/log.h"

namespace wire::json {

using base::ErrorCode;
using base::fail;

namespace {

// The parser makes infinity of a number with a huge exponent, which no JSON can be written of.
// parse() bounds the depth.
bool is_finite(const Value& value) {
  if (value.is_double()) {
    return std::isfinite(value.get_double());
  }
  if (value.is_array()) {
    return std::ranges::all_of(value.get_array(), is_finite);
  }
  return !value.is_object() || std::ranges::all_of(value.get_object(), [](const auto& member) {
    return is_finite(member.value());
  });
}

}  // namespace

Result<Value> parse(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = kDepthMax;
  boost::system::error_code error;
  Value value = boost::json::parse(text, error, {}, options);
  if (error) {
    return fail(ErrorCode::malformed, "the body is not valid JSON: ", error.message());
  }
  if (!is_finite(value)) {
    return fail(ErrorCode::malformed, "the body has a number that is too large");
  }
  return value;
}

Result<Object> parse_object(std::string_view text) {
  ASSIGN_OR_RETURN(Value value, parse(text));
  if (!value.is_object()) {
    return fail(ErrorCode::malformed, "the body is not a JSON object");
  }
  return std::move(value.get_object());
}

namespace {

// Of a valid text: each member of an object has one colon outside of strings.
size_t members_written(std::string_view text) {
  size_t count = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && text[i] == ':') {
      ++count;
    }
  }
  return count;
}

// parse() bounds the depth.
size_t members_kept(const Value& value) {
  size_t count = 0;
  if (value.is_array()) {
    for (const Value& item : value.get_array()) {
      count += members_kept(item);
    }
  } else if (value.is_object()) {
    for (const auto& field : value.get_object()) {
      count += 1 + members_kept(field.value());
    }
  }
  return count;
}

}  // namespace

Result<Object> parse_object_of_unique_keys(std::string_view text) {
  ASSIGN_OR_RETURN(Value value, parse(text));
  if (!value.is_object()) {
    return fail(ErrorCode::malformed, "it is not a JSON object");
  }
  // The parser keeps the last one of a key.
  if (members_written(text) != members_kept(value)) {
    return fail(ErrorCode::malformed, "a key stands twice in one JSON object");
  }
  return std::move(value.get_object());
}

std::string serialize(const Value& value) { return boost::json::serialize(value); }

std::string Reader::path(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : base::cat(prefix_, ".", name);
}

const Value* Reader::find(std::string_view name) {
  known_.emplace_back(name);
  const Value* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::unexpected<base::Error> Reader::missing(std::string_view name) const {
  auto error = fail(ErrorCode::missing_field, "field '", path(name), "' is required");
  error.error().details.emplace_back("field", path(name));
  return error;
}

std::unexpected<base::Error> Reader::wrong_type(std::string_view name,
                                                std::string_view wanted) const {
  return base::fail_field(path(name), "field '", path(name), "' must be ", wanted);
}

Result<void> Reader::finish() const {
  for (const auto& field : object_) {
    const std::string_view name = field.key();
    if (std::ranges::find(known_, name) == known_.end()) {
      auto error = fail(ErrorCode::unknown_field, "unknown field '", path(name), "'");
      error.error().details.emplace_back("field", path(name));
      return error;
    }
  }
  return {};
}

template <>
Result<std::optional<std::string>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    return wrong_type(name, "a string");
  }
  return std::string(value->get_string());
}

template <>
Result<std::optional<int64_t>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->is_int64()) {
    return value->get_int64();
  }
  // 1e3 and 5.0 are integers to a JSON client.
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  if (value->is_double() && std::floor(value->get_double()) == value->get_double() &&
      std::abs(value->get_double()) <= kExactMax) {
    return static_cast<int64_t>(value->get_double());
  }
  return wrong_type(name, "an integer");
}

template <>
Result<std::optional<double>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    return wrong_type(name, "a number");
  }
  return value->to_number<double>();
}

template <>
Result<std::optional<bool>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_bool()) {
    return wrong_type(name, "true or false");
  }
  return value->get_bool();
}

template <>
Result<std::optional<Object>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    return wrong_type(name, "an object");
  }
  return value->get_object();
}

template <>
Result<std::optional<Array>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_array()) {
    return wrong_type(name, "a list");
  }
  return value->get_array();
}

template <>
Result<std::optional<Value>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  return value == nullptr ? std::nullopt : std::optional<Value>(*value);
}

template <>
Result<std::optional<std::vector<std::string>>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> out;
  const bool is_list =
      value->is_array() &&
      std::ranges::all_of(value->get_array(), [](const Value& item) { return item.is_string(); });
  if (!is_list) {
    return wrong_type(name, "a list of strings");
  }
  for (const Value& item : value->get_array()) {
    out.emplace_back(item.get_string());
  }
  return out;
}

template <>
Result<std::optional<std::map<std::string, std::string>>> Reader::optional(std::string_view name) {
  const Value* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_object()) {
    return wrong_type(name, "an object of strings");
  }
  std::map<std::string, std::string> out;
  for (const auto& field : value->get_object()) {
    if (!field.value().is_string()) {
      return wrong_type(base::cat(name, ".", std::string_view(field.key())), "a string");
    }
    out.emplace(field.key(), field.value().get_string());
  }
  return out;
}

std::string error_body(const base::Error& error, std::string_view request_id) {
  // Messages name paths, which need not be UTF-8: the writer of the log replaces what is not.
  std::string out =
      base::cat("{\"error\":{\"code\":\"", base::to_string(error.code), "\",\"message\":");
  base::append_json_string(out, error.message);
  out += ",\"details\":{";
  std::string_view separator;
  const auto add = [&](std::string_view key, std::string_view text) {
    out += std::exchange(separator, ",");
    base::append_json_string(out, key);
    out += ':';
    base::append_json_string(out, text);
  };
  for (const auto& [key, text] : error.details) {
    if (request_id.empty() || key != "request_id") {
      add(key, text);
    }
  }
  if (!request_id.empty()) {
    add("request_id", request_id);
  }
  return out + "}}}";
}

}  // namespace wire::json
