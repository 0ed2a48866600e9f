#include "service/bootstrap.h"

#include <algorithm>

#include "base/sys.h"
#include "service/caller.h"
#include "service/token_hash.h"

namespace service {
namespace {

using base::Result;

constexpr mode_t kTokenMode = 0600;

bool administers_the_platform(const store::Token& token, int64_t now_ms) {
  const auto is_admin_scope = [](const std::string& scope) {
    return scope == token_scope::kAll || scope == token_scope::kAdmin;
  };
  return token.team == kPlatformTeam && token.role == model::Role::admin && !token.of_member &&
         (token.expires_ms == 0 || token.expires_ms > now_ms) &&
         std::ranges::any_of(token.scopes, is_admin_scope);
}

}  // namespace

Result<void> make_admin_token(store::Store& store, const std::string& token_file,
                              base::Random& random, base::Clock& clock) {
  const int64_t now = base::to_ms(clock.wall());
  ASSIGN_OR_RETURN(const auto tokens, store.list_tokens());
  if (std::ranges::any_of(tokens, [now](const store::Token& token) {
        return administers_the_platform(token, now);
      })) {
    return {};
  }
  const std::string secret = base::new_secret(random);
  // The file first: killed in between, the next start writes another one over it.
  RETURN_IF_ERROR(base::sys::replace_file(token_file, secret + "\n", kTokenMode));
  return store.insert_token({.id = base::new_id(random, "tok"),
                             .name = "bootstrap",
                             .team = std::string(kPlatformTeam),
                             .subject = "admin",
                             .role = model::Role::admin,
                             .scopes = {std::string(token_scope::kAll)},
                             .hash = token_hash(secret),
                             .created_ms = now});
}

}  // namespace service
