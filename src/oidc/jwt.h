// A signed JSON Web Token (RFC 7519) in its compact form, taken apart. Nothing of it is believed
// until KeySet::verify() has seen its signature and check_claims() what it says. Pure; bounded by
// kTokenBytesMax. Errors: unauthenticated.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "wire/json.h"

namespace oidc {

using base::Error;
using base::ErrorCode;
using base::Result;

// Issuers that name all groups of a person reach 8 KiB; a request's head has 32 KiB.
inline constexpr size_t kTokenBytesMax = 16UL * 1024;

// How a token may be signed: with a private key that only its issuer has. Nothing else is ever
// taken, "none" and those of a shared secret (HS256) least of all.
enum class Algorithm { rs256, ps256, es256, eddsa };
std::optional<Algorithm> parse_algorithm(std::string_view name);

struct JwtHead {
  Algorithm algorithm = Algorithm::rs256;
  std::string key_id;  // empty: it names none
};

struct Jwt {
  JwtHead head;
  std::string_view signed_text;  // of the token that was parsed
  std::string signature;
  wire::json::Object claims;
};

// Whether it has a token's form: three parts.
bool looks_like_jwt(std::string_view text);
Result<JwtHead> parse_jwt_head(std::string_view token);
Result<Jwt> parse_jwt(std::string_view token);

}  // namespace oidc
