// All teams, in memory: what requests are checked against. The store is the truth that outlives the
// process; this is loaded from it at start and follows each change of it. A team is never changed
// in place: who holds one over a wait keeps what it was. Owned by main; loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "service/team.h"
#include "store/store.h"

namespace service {

using TeamPtr = std::shared_ptr<const Team>;

class Teams {
 public:
  // Blocks; before the loop runs.
  static base::Result<Teams> load(store::Store& store);

  // nullptr: there is none.
  [[nodiscard]] TeamPtr find(std::string_view name) const;
  // not_found.
  [[nodiscard]] base::Result<TeamPtr> get(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, TeamPtr, std::less<>>& all() const { return by_name_; }

  // What the store has taken.
  void put(Team team);
  void erase(std::string_view name);
  // All that it has.
  void replace(std::vector<Team> rows);
  // Called after each of them; one listener.
  void on_change(std::function<void()> listener) { changed_ = std::move(listener); }

 private:
  std::map<std::string, TeamPtr, std::less<>> by_name_;
  std::function<void()> changed_;
};

}  // namespace service
