#include "compose/env_file.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "compose/interpolation.h"
#include "compose/refusal.h"

namespace compose {
namespace {

using base::Result;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kExport = "export ";
constexpr size_t kVariablesMax = 1024;

bool is_name(std::string_view text) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return !text.empty() && std::ranges::all_of(text, fine);
}

// What a backslash and this character stand for in double quotes.
void append_escape(std::string& out, char c) {
  switch (c) {
    case 'n':
      out += '\n';
      break;
    case 'r':
      out += '\r';
      break;
    case 't':
      out += '\t';
      break;
    case '"':
    case '\\':
      out += c;
      break;
    case '$':
      out += "$$";  // the interpolation makes one of the two
      break;
    default:
      out += '\\';
      out += c;
  }
}

class EnvFile {
 public:
  EnvFile(std::string_view text, const model::EnvironmentMap& variables, std::string_view field)
      : text_(text), known_(variables), field_(field) {}

  Result<model::EnvironmentMap> read() {
    while (!text_.empty()) {
      ++line_;
      RETURN_IF_ERROR(take_line());
      if (values_.size() > kVariablesMax) {
        return refuse(field_, "more than ", kVariablesMax, " variables");
      }
    }
    return std::move(values_);
  }

 private:
  std::unexpected<base::Error> fail(std::string_view what) const {
    return refuse(field_, "line ", line_, ": ", what);
  }

  std::string_view rest_of_line() {
    const size_t end = std::min(text_.find('\n'), text_.size());
    std::string_view line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    return line;
  }

  Result<void> take_line() {
    const std::string_view line = text_.substr(0, std::min(text_.find('\n'), text_.size()));
    const std::string_view shown = base::trim(line);
    if (shown.empty() || shown.front() == '#' || shown == "\r") {
      rest_of_line();
      return {};
    }
    const size_t equals = std::min(line.find('='), line.size());
    std::string_view name = base::trim(line.substr(0, equals));
    if (name.ends_with('\r')) {
      name = base::trim(name.substr(0, name.size() - 1));
    }
    if (name.starts_with(kExport)) {
      name = base::trim(name.substr(kExport.size()));
    }
    if (!is_name(name)) {
      return fail("no NAME=value");
    }
    const std::string key(name);
    if (equals == line.size()) {
      rest_of_line();
      if (const auto found = known_.find(key); found != known_.end()) {
        values_[key] = found->second;
      }
      return {};
    }
    text_.remove_prefix(equals + 1);
    ASSIGN_OR_RETURN(std::string value, take_value());
    known_[key] = value;
    values_[key] = std::move(value);
    return {};
  }

  Result<std::string> take_value() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\t')) {
      text_.remove_prefix(1);
    }
    const char first = text_.empty() ? '\n' : text_.front();
    if (first == '\'' || first == '"') {
      return take_quoted(first);
    }
    std::string_view value = rest_of_line();
    // A comment begins behind a blank.
    for (size_t at = 0; at < value.size(); ++at) {
      if (value[at] == '#' && (at == 0 || value[at - 1] == ' ' || value[at - 1] == '\t')) {
        value = value.substr(0, at);
        break;
      }
    }
    return expand(base::trim(value));
  }

  Result<std::string> take_quoted(char quote) {
    text_.remove_prefix(1);
    std::string inside;
    for (;;) {
      if (text_.empty()) {
        return fail("a quote that does not end");
      }
      const char c = text_.front();
      text_.remove_prefix(1);
      if (c == quote) {
        break;
      }
      line_ += c == '\n' ? 1 : 0;
      if (quote == '"' && c == '\\' && !text_.empty()) {
        append_escape(inside, text_.front());
        text_.remove_prefix(1);
      } else {
        inside += c;
      }
    }
    const std::string_view behind = base::trim(rest_of_line());
    if (!behind.empty() && behind.front() != '#') {
      return fail("text behind a quote that has ended");
    }
    if (quote == '\'') {
      return inside;
    }
    return expand(inside);
  }

  Result<std::string> expand(std::string_view value) const {
    return interpolate(value, known_, Grammar::env_file, base::cat(field_, " line ", line_));
  }

  std::string_view text_;
  model::EnvironmentMap known_;
  model::EnvironmentMap values_;
  std::string_view field_;
  size_t line_ = 0;
};

}  // namespace

Result<model::EnvironmentMap> parse_env_file(std::string_view text,
                                             const model::EnvironmentMap& variables,
                                             std::string_view field) {
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  if (!base::is_utf8(text) || text.find('\0') != std::string_view::npos) {
    return refuse(field, "is no text in UTF-8");
  }
  return EnvFile(text, variables, field).read();
}

}  // namespace compose
