#include "compose/interpolation.h"

#include <algorithm>
#include <optional>

#include "compose/refusal.h"

namespace compose {
namespace {

using base::Result;

// Of defaults within defaults.
constexpr int kNestingMax = 8;

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return starts_name(c) || (c >= '0' && c <= '9'); }

size_t name_length(std::string_view text) {
  if (text.empty() || !starts_name(text.front())) {
    return 0;
  }
  size_t length = 1;
  while (length < text.size() && is_name_char(text[length])) {
    ++length;
  }
  return length;
}

// Where the brace that opened before `text` closes; npos: nowhere.
size_t closing_brace(std::string_view text) {
  int open = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '$' && at + 1 < text.size() && text[at + 1] == '{') {
      ++open;
      ++at;
    } else if (text[at] == '}') {
      if (open == 0) {
        return at;
      }
      --open;
    }
  }
  return std::string_view::npos;
}

class Interpolation {
 public:
  Interpolation(const model::EnvironmentMap& variables, Grammar grammar, std::string_view field)
      : variables_(variables), grammar_(grammar), field_(field) {}

  Result<std::string> expand(std::string_view text, int depth) const {
    if (depth > kNestingMax) {
      return refuse(field_, "defaults are nested too deeply");
    }
    std::string out;
    while (!text.empty()) {
      const size_t dollar = std::min(text.find('$'), text.size());
      out += text.substr(0, dollar);
      text.remove_prefix(dollar);
      if (!text.empty()) {
        RETURN_IF_ERROR(take_dollar(text, out, depth));
      }
      if (out.size() > kTextBytesMax) {
        return refuse(field_, "becomes longer than ", kTextBytesMax, " bytes");
      }
    }
    return out;
  }

 private:
  // `text` begins with the sign.
  Result<void> take_dollar(std::string_view& text, std::string& out, int depth) const {
    if (text.starts_with("$$")) {
      out += '$';
      text.remove_prefix(2);
      return {};
    }
    if (const size_t length = name_length(text.substr(1)); length > 0) {
      out += value_of(text.substr(1, length)).value_or("");
      text.remove_prefix(1 + length);
      return {};
    }
    if (text.starts_with("${")) {
      const std::string_view inside = text.substr(2);
      const size_t end = closing_brace(inside);
      if (end != std::string_view::npos && name_length(inside) > 0) {
        RETURN_IF_ERROR(take_braces(inside.substr(0, end), out, depth));
        text.remove_prefix(2 + end + 1);
        return {};
      }
    }
    if (grammar_ == Grammar::file) {
      return refuse(field_, "a '$' that begins no variable: write $$ for the sign itself");
    }
    out += '$';
    text.remove_prefix(1);
    return {};
  }

  Result<void> take_braces(std::string_view inside, std::string& out, int depth) const {
    const std::string_view name = inside.substr(0, name_length(inside));
    std::string_view rest = inside.substr(name.size());
    const std::optional<std::string_view> value = value_of(name);
    if (rest.empty()) {
      out += value.value_or("");
      return {};
    }
    const bool empty_counts = rest.front() != ':';
    rest.remove_prefix(empty_counts ? 0 : 1);
    const bool is_set = value && (empty_counts || !value->empty());
    const char operation = rest.empty() ? '\0' : rest.front();
    if (operation != '-' && operation != '+' && operation != '?') {
      return refuse(field_, "'${", inside, "}' is no variable");
    }
    const std::string_view word = rest.substr(1);
    if (operation == '-' && is_set) {
      out += *value;
      return {};
    }
    if (operation == '+' && !is_set) {
      return {};
    }
    if (operation == '?' && is_set) {
      out += *value;
      return {};
    }
    ASSIGN_OR_RETURN(const std::string expanded, expand(word, depth + 1));
    if (operation == '?') {
      return refuse(field_, "the variable ", name, " is required", expanded.empty() ? "" : ": ",
                    expanded);
    }
    out += expanded;
    return {};
  }

  std::optional<std::string_view> value_of(std::string_view name) const {
    const auto found = variables_.find(std::string(name));
    return found == variables_.end() ? std::nullopt
                                     : std::optional<std::string_view>(found->second);
  }

  const model::EnvironmentMap& variables_;
  Grammar grammar_;
  std::string_view field_;
};

}  // namespace

Result<std::string> interpolate(std::string_view text, const model::EnvironmentMap& variables,
                                Grammar grammar, std::string_view field) {
  return Interpolation(variables, grammar, field).expand(text, 0);
}

}  // namespace compose
