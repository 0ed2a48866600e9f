// Who calls, and what the caller may do. A value; made by Access for each request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/role.h"
#include "store/rows.h"

namespace service {

// What a route asks for.
enum class Scope {
  open,      // no token
  any,       // some valid token
  read,      // to look: lists, states, events, figures, the audit log
  member,    // to make, use and delete sandboxes
  admin,     // to administer the team it acts in
  platform,  // to administer all teams and the machine
  metrics,   // /metrics
};

// What a token's list of scopes may hold, as the API spells them.
namespace token_scope {
inline constexpr std::string_view kAll = "*";  // of the first token only
inline constexpr std::string_view kRead = "read";
inline constexpr std::string_view kMember = "member";  // and read
inline constexpr std::string_view kAdmin = "admin";    // and member
inline constexpr std::string_view kMetrics = "metrics";
}  // namespace token_scope

// Its admins administer the platform: all teams, and images of the machine.
inline constexpr std::string_view kPlatformTeam = "default";

struct Membership {
  std::string team;
  model::Role role = model::Role::member;
};

// Who somebody is who signed in with an issuer of OpenID Connect instead of showing a token of
// ours.
struct Identity {
  std::string subject;
  std::vector<std::string> groups;  // those that the gateway's configuration knows
  int64_t expires_ms = 0;           // of what was shown
  std::string sign_in;              // the session's id; empty: a token of the issuer was shown
};

// Of a sandbox that shows a token of its own (service/sandbox_identity.h).
struct ActingSandbox {
  std::string id;
  std::vector<std::string> scopes;  // that the token was made with; empty: all that the team gives
  bool only_itself = true;          // it may use no other sandbox of its team, and make none
};

struct Caller {
  std::string team;                // the one it acts in, at first its own
  std::string subject;             // shown as `owner`
  std::string token_id;            // which of its tokens it showed; empty: it showed something else
  bool is_admin = false;           // of that team
  bool is_platform_admin = false;  // acts in every team, as an admin
  bool may_read = false;
  bool may_use_sandboxes = false;
  bool may_administer = false;  // where its role is admin
  bool may_read_metrics = false;
  std::vector<Membership> memberships;  // of a caller in several teams, its own included
  int64_t expires_ms = 0;               // 0: never
  std::string remote;                   // the address it calls from, for the audit log
  std::shared_ptr<const Identity> identity = nullptr;      // of one who signed in
  std::shared_ptr<const ActingSandbox> sandbox = nullptr;  // of a sandbox

  // In the team it acts in.
  [[nodiscard]] bool may(Scope scope) const;
  // Whether it may act in a team of that name (which need not exist).
  [[nodiscard]] bool is_in(std::string_view name) const;
  [[nodiscard]] bool is_in_several() const { return is_platform_admin || !memberships.empty(); }
  // From here on it acts in that team, in which it is.
  void enter(std::string_view name);
};

}  // namespace service
