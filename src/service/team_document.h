// A team as the API's JSON, both ways, and what differs between two of them. Pure; every refusal
// names its field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "service/team.h"
#include "wire/json.h"

namespace service {

inline constexpr size_t kMembersMax = 1000;  // all are in memory, and a list has one page

wire::json::Object team_json(const Team& team);
// What everybody who is signed in may know of a team: its name and its quota.
wire::json::Object foreign_team_json(const Team& team);
wire::json::Object member_json(const store::Member& member);

base::Result<void> check_team_name(std::string_view field, std::string_view name);
base::Result<void> check_subject(std::string_view field, std::string_view subject);
base::Result<model::Role> parse_role_field(std::string_view field, std::string_view text);

// What `body` says, over `base`: a field that is not there stays as it is, a limit that is null is
// none. `prefix` stands before the names of fields in errors: "teams[2]".
base::Result<Team> parse_team(const wire::json::Object& body, const std::string& prefix, Team base);

struct FieldChange {
  std::string field;  // "quota.cpus"
  wire::json::Value from;
  wire::json::Value to;
};
std::vector<FieldChange> changes_between(const Team& from, const Team& to);

}  // namespace service
