#include "service/build_secrets.h"

#include <algorithm>

#include "base/text.h"
#include "wire/json.h"

namespace service {
namespace {

using base::fail_field;
using base::Result;
using wire::json::Object;
using ById = std::map<std::string, base::Secret>;

constexpr size_t kIdBytesMax = 64;

// A builder has files of these names.
bool is_id(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kIdBytesMax && !text.starts_with('.') &&
         std::ranges::all_of(text, allowed);
}

Result<ById> parse(std::string_view header, std::string_view text) {
  ById out;
  if (text.empty()) {
    return out;
  }
  const auto object = wire::json::parse_object_of_unique_keys(text);
  if (!object) {
    return fail_field(header, "'", header, "' must be a JSON object of ids and base64");
  }
  for (const auto& [key, value] : *object) {
    const std::string_view id(key);
    if (!is_id(id)) {
      return fail_field(header, "an id in '", header, "' must be 1 to ", kIdBytesMax,
                        " of A-Z a-z 0-9 . _ -, and begin with no point");
    }
    auto bytes = value.is_string() ? base::decode_base64(std::string_view(value.get_string()))
                                   : std::nullopt;
    if (!bytes) {
      return fail_field(header, "'", id, "' in '", header, "' must be base64");
    }
    out.emplace(id, std::move(*bytes));
  }
  return out;
}

size_t bytes_of(const ById& secrets) {
  size_t bytes = 0;
  for (const auto& [id, secret] : secrets) {
    bytes += secret.reveal().size();
  }
  return bytes;
}

Object encoded(const ById& secrets) {
  Object out;
  for (const auto& [id, secret] : secrets) {
    out[id] = base::base64(secret.reveal());
  }
  return out;
}

}  // namespace

Result<BuildSecrets> parse_build_secrets(std::string_view values, std::string_view keys) {
  BuildSecrets out;
  ASSIGN_OR_RETURN(out.values, parse("X-Build-Secrets", values));
  ASSIGN_OR_RETURN(out.keys, parse("X-Build-Ssh", keys));
  if (out.values.size() + out.keys.size() > BuildSecrets::kCountMax ||
      bytes_of(out.values) + bytes_of(out.keys) > BuildSecrets::kBytesMax) {
    return fail_field(values.empty() ? "X-Build-Ssh" : "X-Build-Secrets", "a build takes at most ",
                      BuildSecrets::kCountMax, " secrets and keys, of together ",
                      BuildSecrets::kBytesMax, " bytes");
  }
  return out;
}

base::Secret build_secrets_file(const BuildSecrets& secrets) {
  return base::Secret(wire::json::serialize(
      Object{{"secrets", encoded(secrets.values)}, {"ssh", encoded(secrets.keys)}}));
}

}  // namespace service
