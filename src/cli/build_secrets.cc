#include "cli/build_secrets.h"

#include <stdlib.h>

#include "base/sys.h"
#include "base/text.h"
#include "wire/json.h"

namespace cli {
namespace {

using base::fail_field;
using base::Result;
using wire::json::Object;

constexpr size_t kFileBytesMax = size_t{16} * 1024;  // as the gateway has it

struct Source {
  std::string id, file, variable;
};

Result<Source> parse_source(std::string_view text) {
  Source out;
  for (const std::string_view part : base::split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    if (key == "id") {
      out.id = value;
    } else if (key == "src" || key == "source") {
      out.file = value;
    } else if (key == "env") {
      out.variable = value;
    } else if (key != "type" || (value != "file" && value != "env")) {
      return fail_field("secret", "--secret ", text, ": '", key,
                        "' is none of id, src, env and type");
    }
  }
  if (out.id.empty() || out.file.empty() == out.variable.empty()) {
    return fail_field("secret", "--secret ", text,
                      ": write id=NAME,src=FILE or id=NAME,env=VARIABLE");
  }
  return out;
}

Result<std::string> read_source(const Source& source) {
  if (!source.file.empty()) {
    return base::sys::read_file(source.file, kFileBytesMax);
  }
  const char* value = ::getenv(source.variable.c_str());
  if (value == nullptr) {
    return fail_field("secret", "--secret id=", source.id, ",env=", source.variable,
                      ": there is no such variable here");
  }
  return std::string(value);
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> build_secret_headers(
    const std::vector<std::string>& secrets, const std::vector<std::string>& keys) {
  Object values;
  for (const std::string& text : secrets) {
    ASSIGN_OR_RETURN(const Source source, parse_source(text));
    ASSIGN_OR_RETURN(const std::string value, read_source(source));
    values[source.id] = base::base64(value);
  }
  Object private_keys;
  for (const std::string& text : keys) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return fail_field("ssh", "--ssh ", text,
                        ": write default=KEYFILE; the agent of this machine is not forwarded");
    }
    ASSIGN_OR_RETURN(const std::string key,
                     base::sys::read_file(text.substr(equals + 1), kFileBytesMax));
    private_keys[text.substr(0, equals)] = base::base64(key);
  }
  std::vector<std::pair<std::string, std::string>> headers;
  if (!values.empty()) {
    headers.emplace_back("X-Build-Secrets", wire::json::serialize(values));
  }
  if (!private_keys.empty()) {
    headers.emplace_back("X-Build-Ssh", wire::json::serialize(private_keys));
  }
  return headers;
}

}  // namespace cli
