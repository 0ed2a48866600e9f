#include "service/bootstrap.h"

#include <algorithm>

#include "base/sys.h"

namespace service {
namespace {

using base::Result;

constexpr mode_t kTokenMode = 0600;
constexpr std::string_view kTeam = "default";

bool has(const std::vector<std::string>& scopes, std::string_view name) {
  return std::ranges::find(scopes, name) != scopes.end();
}

Caller caller_of(const store::Token& token) {
  const bool all = has(token.scopes, "*");
  return {.team = token.team,
          .subject = token.subject,
          .is_admin = token.role == "admin",
          .may_use_sandboxes = all || has(token.scopes, "sandboxes"),
          .may_read_metrics = all || has(token.scopes, "metrics")};
}

}  // namespace

Result<void> make_admin_token(store::Store& store, const std::string& token_file,
                              base::Random& random, base::Clock& clock) {
  ASSIGN_OR_RETURN(const auto tokens, store.list_tokens(kTeam));
  if (!tokens.empty()) {
    return {};
  }
  const std::string secret = base::new_secret(random);
  // The file first: killed in between, the next start writes another one over it.
  RETURN_IF_ERROR(base::sys::replace_file(token_file, secret + "\n", kTokenMode));
  return store.insert_token({.id = base::new_id(random, "tok"),
                             .name = "bootstrap",
                             .team = std::string(kTeam),
                             .subject = "admin",
                             .role = "admin",
                             .scopes = {"*"},
                             .hash = token_hash(secret),
                             .created_ms = base::to_ms(clock.wall())});
}

Result<Access> load_access(store::Store& store, base::Clock& clock) {
  Access access;
  ASSIGN_OR_RETURN(const auto teams, store.list_teams());
  for (const store::Team& team : teams) {
    ASSIGN_OR_RETURN(const auto tokens, store.list_tokens(team.name));
    for (const store::Token& token : tokens) {
      if (token.expires_ms == 0 || token.expires_ms > base::to_ms(clock.wall())) {
        access.add(token.hash, caller_of(token));
      }
    }
  }
  return access;
}

}  // namespace service
