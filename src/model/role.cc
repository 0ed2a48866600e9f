#include "model/role.h"

namespace model {

std::string_view to_string(Role role) { return role == Role::admin ? "admin" : "member"; }

std::optional<Role> parse_role(std::string_view text) {
  if (text == "admin") {
    return Role::admin;
  }
  return text == "member" ? std::optional(Role::member) : std::nullopt;
}

}  // namespace model
