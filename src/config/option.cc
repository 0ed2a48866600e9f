#include "config/option.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "net/listener.h"

namespace config {
namespace {

using base::ErrorCode;
using base::Result;

constexpr double kThousand = 1000;

// "2", "0.5" in thousandths.
std::optional<int64_t> parse_decimal(std::string_view text) {
  constexpr double kMost = 1e12;  // far above every option's own bound, far below an overflow
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(std::abs(value) <= kMost)) {
    return std::nullopt;
  }
  return std::llround(value * kThousand);
}

// Thousandths as people write them: 500 is "0.5".
std::string decimal_text(int64_t thousandths) {
  std::string out = std::to_string(static_cast<double>(thousandths) / kThousand);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) {
    out.pop_back();
  }
  return out;
}

Result<std::string> parse_number(const Option& option, std::string_view value) {
  const bool is_decimal = option.kind == Kind::decimal;
  const auto number = is_decimal ? parse_decimal(value) : base::parse_number<int64_t>(value);
  if (number && *number >= option.least && *number <= option.most) {
    return std::string(value);
  }
  const auto text = [is_decimal](int64_t bound) {
    return is_decimal ? decimal_text(bound) : std::to_string(bound);
  };
  const bool is_open = option.most == std::numeric_limits<int64_t>::max();
  return base::fail(ErrorCode::invalid_field, "takes a ", is_decimal ? "" : "whole ",
                    "number from ", text(option.least), is_open ? "" : " to ",
                    is_open ? "" : text(option.most), ", not \"", value, "\"");
}

Result<std::string> parse_boolean(std::string_view value) {
  for (const std::string_view yes : {"yes", "true", "on", "1"}) {
    if (value == yes) {
      return "yes";
    }
  }
  for (const std::string_view no : {"no", "false", "off", "0"}) {
    if (value == no) {
      return "no";
    }
  }
  return base::fail(ErrorCode::invalid_field, "takes yes or no, not \"", value, "\"");
}

}  // namespace

std::string variable_name(const Program& program, std::string_view option) {
  std::string name(program.variable_prefix);
  for (const char c : option) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

Result<std::string> parse_value(const Option& option, std::string_view value) {
  if (value.empty() && option.kind != Kind::boolean) {
    if (option.may_be_empty) {
      return "";
    }
    return base::fail(ErrorCode::invalid_field, "needs a value (", option.value, ")");
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (std::ranges::any_of(value, is_control) || !base::is_utf8(value)) {
    return base::fail(ErrorCode::invalid_field, "takes UTF-8 text without control characters");
  }
  switch (option.kind) {
    case Kind::text:
    case Kind::path:
      return std::string(value);
    case Kind::address:
      RETURN_IF_ERROR(net::check_address(std::string(value)));
      return std::string(value);
    case Kind::number:
    case Kind::decimal:
      return parse_number(option, value);
    case Kind::boolean:
      return parse_boolean(value);
    case Kind::choice:
      break;
  }
  for (const std::string_view choice : base::split(option.choices, '|')) {
    if (value == choice) {
      return std::string(value);
    }
  }
  return base::fail(ErrorCode::invalid_field, "takes one of ", option.choices, ", not \"", value,
                    "\"");
}

}  // namespace config
