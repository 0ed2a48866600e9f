#include "cli/variables.h"

#include <stdlib.h>

#include "base/sys.h"

namespace cli {

using base::fail_field;
using wire::json::Object;

namespace {

// A whole environment has to fit into one request of the gateway.
constexpr size_t kEnvironmentFileBytesMax = 1024UL * 1024;

Result<void> add_file(Object& to, const std::string& path) {
  ASSIGN_OR_RETURN(const auto text, base::sys::read_file(path, kEnvironmentFileBytesMax));
  size_t number = 0;
  for (std::string_view line : base::split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (base::trim(line).empty() || base::trim(line).starts_with('#')) {
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == line.npos || equals == 0) {
      return fail_field("env", path, ":", number, " is not a line like NAME=value");
    }
    to[base::trim(line.substr(0, equals))] = line.substr(equals + 1);
  }
  return {};
}

}  // namespace

Result<Object> read_variables(const std::vector<std::string>& words,
                              const std::vector<std::string>& files) {
  Object out;
  for (const auto& path : files) {
    RETURN_IF_ERROR(add_file(out, path));
  }
  for (const std::string_view word : words) {
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    if (name.empty()) {
      return fail_field("env", "a variable without a name: write --env NAME=value");
    }
    if (equals != word.npos) {
      out[name] = word.substr(equals + 1);
      continue;
    }
    const char* value = ::getenv(name.c_str());
    if (value == nullptr) {
      return fail_field("env", "--env ", name, ": there is no such variable here to pass on");
    }
    out[name] = value;
  }
  return out;
}

Result<Object> parse_labels(const std::vector<std::string>& words) {
  Object out;
  for (const std::string_view word : words) {
    const size_t equals = word.find('=');
    if (equals == word.npos || equals == 0) {
      return fail_field("labels", "'", word, "' is not a label like key=value");
    }
    out[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return out;
}

}  // namespace cli
