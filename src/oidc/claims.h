// What a token whose signature is right says, against what is wanted. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "oidc/jwt.h"

namespace oidc {

struct Expected {
  std::string issuer;
  std::vector<std::string> audiences;  // one of them
  int64_t skew_ms = 0;                 // how far the issuer's clock may be from ours
};

// unauthenticated: another issuer or audience, no `exp`, expired, not yet valid, issued in the
// future. The time at which it stops to be taken, in ms since 1970.
Result<int64_t> check_claims(const wire::json::Object& claims, const Expected& expected,
                             int64_t now_ms);

// A text; "" where the claim is not there or something else.
std::string text_claim(const wire::json::Object& claims, std::string_view name);
// One text, or the texts of a list.
std::vector<std::string> list_claim(const wire::json::Object& claims, std::string_view name);
// true, or "true" as some issuers write it.
bool true_claim(const wire::json::Object& claims, std::string_view name);

}  // namespace oidc
