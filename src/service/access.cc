#include "service/access.h"

#include <openssl/evp.h>

#include <array>

namespace service {

using base::ErrorCode;

bool Caller::may(Scope scope) const {
  switch (scope) {
    case Scope::open:
      return true;
    case Scope::member:
      return may_use_sandboxes;
    case Scope::admin:
      return is_admin;
    case Scope::metrics:
      return may_read_metrics;
  }
  return false;
}

std::string token_hash(std::string_view token) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(token.data(), token.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return base::hex(std::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

base::Result<Caller> Access::authenticate(const std::string* authorization) const {
  if (authorization == nullptr) {
    return base::fail(ErrorCode::unauthenticated, "an Authorization header with a token is needed");
  }
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view value = *authorization;
  if (value.size() <= kScheme.size() ||
      !base::equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
    return base::fail(ErrorCode::unauthenticated, "the Authorization header is not a bearer token");
  }
  const auto found = callers_.find(token_hash(base::trim(value.substr(kScheme.size()))));
  if (found == callers_.end()) {
    return base::fail(ErrorCode::unauthenticated, "the token is not valid");
  }
  return found->second;
}

}  // namespace service
