#include "oidc/claims.h"

#include <algorithm>
#include <cmath>

namespace oidc {
namespace {

using wire::json::Object;

// Seconds since 1970 of the year 9999: what follows stays inside 64 bits in ms.
constexpr double kSecondsMax = 253'402'300'799.0;
constexpr double kMsPerSecond = 1000;
// More is no token of a person.
constexpr size_t kListMax = 1000;

std::unexpected<Error> not_valid(std::string_view why) {
  return base::fail(ErrorCode::unauthenticated, "the token is not valid: ", why);
}

// A NumericDate, which may have a fraction. nullopt: not there.
Result<std::optional<int64_t>> time_claim(const Object& claims, std::string_view name) {
  const auto* value = claims.if_contains(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const double seconds = value->is_number() ? value->to_number<double>() : -1;
  if (!(seconds >= 0 && seconds <= kSecondsMax)) {
    return not_valid(base::cat("'", name, "' is not a time"));
  }
  return static_cast<int64_t>(seconds * kMsPerSecond);
}

}  // namespace

std::string text_claim(const Object& claims, std::string_view name) {
  const auto* value = claims.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

std::vector<std::string> list_claim(const Object& claims, std::string_view name) {
  std::vector<std::string> out;
  const auto* value = claims.if_contains(name);
  if (value != nullptr && value->is_string()) {
    out.emplace_back(value->get_string());
  } else if (value != nullptr && value->is_array()) {
    for (const auto& item : value->get_array()) {
      if (item.is_string() && out.size() < kListMax) {
        out.emplace_back(item.get_string());
      }
    }
  }
  return out;
}

bool true_claim(const Object& claims, std::string_view name) {
  const auto* value = claims.if_contains(name);
  return value != nullptr && ((value->is_bool() && value->get_bool()) ||
                              (value->is_string() && value->get_string() == "true"));
}

Result<int64_t> check_claims(const Object& claims, const Expected& expected, int64_t now_ms) {
  if (text_claim(claims, "iss") != expected.issuer) {
    return not_valid("it is of another issuer");
  }
  const auto audiences = list_claim(claims, "aud");
  if (std::ranges::find_first_of(audiences, expected.audiences) == audiences.end()) {
    return not_valid("it is for another audience");
  }
  ASSIGN_OR_RETURN(const auto expires_ms, time_claim(claims, "exp"));
  ASSIGN_OR_RETURN(const auto not_before_ms, time_claim(claims, "nbf"));
  ASSIGN_OR_RETURN(const auto issued_ms, time_claim(claims, "iat"));
  if (!expires_ms) {
    return not_valid("it has no 'exp'");
  }
  const int64_t end_ms = *expires_ms + expected.skew_ms;
  if (end_ms <= now_ms) {
    return not_valid("it has expired");
  }
  if (not_before_ms.value_or(0) > now_ms + expected.skew_ms) {
    return not_valid("it is not valid yet");
  }
  if (issued_ms.value_or(0) > now_ms + expected.skew_ms) {
    return not_valid("it was issued in the future");
  }
  return end_ms;
}

}  // namespace oidc
