#include "service/caller.h"

#include <algorithm>

namespace service {

bool Caller::may(Scope scope) const {
  switch (scope) {
    case Scope::open:
    case Scope::any:
      return true;
    case Scope::read:
      return may_read;
    case Scope::member:
      return may_use_sandboxes;
    case Scope::admin:
      return is_admin;
    case Scope::platform:
      return is_platform_admin;
    case Scope::metrics:
      return may_read_metrics;
  }
  return false;
}

bool Caller::is_in(std::string_view name) const {
  return name == team || is_platform_admin ||
         std::ranges::find(memberships, name, &Membership::team) != memberships.end();
}

void Caller::enter(std::string_view name) {
  if (name == team) {
    return;
  }
  team = name;
  const auto found = std::ranges::find(memberships, name, &Membership::team);
  const bool is_admin_there =
      found != memberships.end() && found->role == model::Role::admin && may_administer;
  is_admin = is_platform_admin || is_admin_there;
}

}  // namespace service
