// What somebody is in a team.
#pragma once

#include <optional>
#include <string_view>

namespace model {

enum class Role { member, admin };
std::string_view to_string(Role role);
std::optional<Role> parse_role(std::string_view text);

}  // namespace model
