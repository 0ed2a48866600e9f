#include "service/teams.h"

#include <algorithm>

namespace service {

using base::Result;

Result<Teams> Teams::load(store::Store& store) {
  ASSIGN_OR_RETURN(auto rows, store.list_teams());
  Teams teams;
  for (Team& team : rows) {
    teams.put(std::move(team));
  }
  return teams;
}

TeamPtr Teams::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Result<TeamPtr> Teams::get(std::string_view name) const {
  if (TeamPtr team = find(name)) {
    return team;
  }
  return base::fail(base::ErrorCode::not_found, "team '", name, "' does not exist");
}

void Teams::put(Team team) {
  std::string name = team.name;
  by_name_[std::move(name)] = std::make_shared<const Team>(std::move(team));
  if (changed_) {
    changed_();
  }
}

void Teams::erase(std::string_view name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    by_name_.erase(found);
    if (changed_) {
      changed_();
    }
  }
}

void Teams::replace(std::vector<Team> rows) {
  std::vector<std::string> gone;
  for (const auto& [name, team] : by_name_) {
    if (std::ranges::find(rows, name, &Team::name) == rows.end()) {
      gone.push_back(name);
    }
  }
  for (const std::string& name : gone) {
    erase(name);
  }
  for (Team& row : rows) {
    const auto known = by_name_.find(row.name);
    if (known == by_name_.end() || *known->second != row) {
      put(std::move(row));
    }
  }
}

}  // namespace service
