#include "oidc/jwt.h"

#include <algorithm>

namespace oidc {
namespace {

using wire::json::Object;

constexpr size_t kKeyIdBytesMax = 256;

std::unexpected<Error> not_valid(std::string_view why) {
  return base::fail(ErrorCode::unauthenticated, "the token is not valid: ", why);
}

// What a token may say that it is; an issuer signs other things too (a logout's token), which open
// nothing.
bool is_known_type(std::string_view type) {
  return base::equals_ignoring_case(type, "JWT") || base::equals_ignoring_case(type, "at+jwt") ||
         base::equals_ignoring_case(type, "application/at+jwt");
}

Result<Object> decode_part(std::string_view part) {
  const auto text = base::decode_base64url(part);
  if (!text) {
    return not_valid("a part of it is not base64url");
  }
  auto object = wire::json::parse_object_of_unique_keys(*text);
  if (!object) {
    return not_valid(object.error().message);
  }
  return object;
}

Result<JwtHead> read_head(std::string_view part) {
  ASSIGN_OR_RETURN(const Object object, decode_part(part));
  const auto text_of = [&object](std::string_view name) -> std::optional<std::string_view> {
    const auto* value = object.if_contains(name);
    return value != nullptr && value->is_string()
               ? std::optional(std::string_view(value->get_string()))
               : std::nullopt;
  };
  JwtHead head;
  const auto algorithm = parse_algorithm(text_of("alg").value_or(""));
  if (!algorithm) {
    return not_valid("its algorithm is none of RS256, PS256, ES256 and EdDSA");
  }
  head.algorithm = *algorithm;
  // What must be understood, and is not.
  if (object.contains("crit")) {
    return not_valid("it has critical extensions");
  }
  if (object.contains("typ") && !is_known_type(text_of("typ").value_or(""))) {
    return not_valid("it is of another type");
  }
  if (object.contains("kid")) {
    const auto key_id = text_of("kid");
    if (!key_id || key_id->empty() || key_id->size() > kKeyIdBytesMax) {
      return not_valid("its key's id is none");
    }
    head.key_id = *key_id;
  }
  return head;
}

Result<void> check_size(std::string_view token) {
  if (token.size() > kTokenBytesMax) {
    return not_valid(base::cat("it has more than ", kTokenBytesMax, " bytes"));
  }
  return {};
}

}  // namespace

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  if (name == "RS256") {
    return Algorithm::rs256;
  }
  if (name == "PS256") {
    return Algorithm::ps256;
  }
  if (name == "ES256") {
    return Algorithm::es256;
  }
  return name == "EdDSA" ? std::optional(Algorithm::eddsa) : std::nullopt;
}

bool looks_like_jwt(std::string_view text) { return std::ranges::count(text, '.') == 2; }

Result<JwtHead> parse_jwt_head(std::string_view token) {
  RETURN_IF_ERROR(check_size(token));
  return read_head(token.substr(0, token.find('.')));
}

Result<Jwt> parse_jwt(std::string_view token) {
  RETURN_IF_ERROR(check_size(token));
  const auto parts = base::split(token, '.');
  constexpr size_t kParts = 3;
  if (parts.size() != kParts) {
    return not_valid("it has not three parts");
  }
  Jwt jwt;
  ASSIGN_OR_RETURN(jwt.head, read_head(parts[0]));
  ASSIGN_OR_RETURN(jwt.claims, decode_part(parts[1]));
  auto signature = base::decode_base64url(parts[2]);
  if (!signature || signature->empty()) {
    return not_valid("it has no signature");
  }
  jwt.signature = std::move(*signature);
  jwt.signed_text = token.substr(0, parts[0].size() + 1 + parts[1].size());
  return jwt;
}

}  // namespace oidc
