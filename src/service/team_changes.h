// The use cases of /teams: what is to become of teams is checked against what they use, written in
// one transaction and then taken over in memory, one change after the other. A change that another
// gateway's overtook is planned anew on what that left. Who may do it, the route table and the
// handlers say. Owned by main; loop thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "service/access.h"
#include "service/registries.h"
#include "service/team_document.h"

namespace service {

// What one team's part of a change is.
struct TeamChange {
  std::string team;
  std::string_view action;  // create, update, delete, none
  std::vector<FieldChange> fields;
};

class TeamChanges {
 public:
  TeamChanges(Context& context, Access& access, Registries& registries)
      : context_(context), access_(access), registries_(registries), idle_(context.loop) {}

  // Errors of all: invalid_field and the like; in_use (details.field, .used) for a quota that would
  // be lowered below what is used.

  // conflict: there is one of that name.
  net::Task<base::Result<TeamPtr>> create(std::string body);
  struct Put {
    TeamPtr team;
    bool fresh = false;
  };
  // Makes it, or gives it exactly what `body` says; members stay where it names none.
  net::Task<base::Result<Put>> put(std::string name, std::string body);
  // What `body` says, the rest stays. `members_only`: nothing else may be in it (forbidden).
  net::Task<base::Result<TeamPtr>> patch(std::string name, std::string body, bool members_only);
  // in_use while it has sandboxes or tokens; conflict for the platform's own.
  net::Task<base::Result<void>> remove(std::string name);
  net::Task<base::Result<store::Member>> put_member(std::string name, std::string subject,
                                                    std::string body);
  net::Task<base::Result<void>> remove_member(std::string name, std::string subject);

  // {"teams": [...], "prune": false}: each as put(), all or nothing; with `prune` the teams that
  // are not named go, but for the platform's own. Done again it changes nothing.
  struct Applied {
    std::vector<TeamChange> changes;  // by name; those with the action none too
    bool changes_something = false;
  };
  net::Task<base::Result<Applied>> apply(wire::json::Object document, bool dry_run);

 private:
  // The same, once: each fails with Store::was_changed_elsewhere() where another gateway was
  // faster.
  net::Task<base::Result<TeamPtr>> create_once(std::string body);
  net::Task<base::Result<Put>> put_once(std::string name, std::string body);
  net::Task<base::Result<TeamPtr>> patch_once(std::string name, std::string body,
                                              bool members_only);
  net::Task<base::Result<void>> remove_once(std::string name);
  net::Task<base::Result<store::Member>> put_member_once(std::string name, std::string subject,
                                                         std::string body);
  net::Task<base::Result<void>> remove_member_once(std::string name, std::string subject);
  net::Task<base::Result<Applied>> apply_once(wire::json::Object document, bool dry_run);
  template <typename Result, typename... Arguments>
  net::Task<Result> until_undisturbed(net::Task<Result> (TeamChanges::*change)(Arguments...),
                                      std::type_identity_t<Arguments>... arguments);

  // One change at a time: what it was checked against holds until it is done.
  class Turn;
  using TurnPtr = std::shared_ptr<const Turn>;
  // With other gateways on the store, the teams are read anew before it begins.
  net::Task<base::Result<TurnPtr>> take_turn();
  void note_known(const std::string& name, std::vector<Team>& out) const;
  // Checks and writes one team.
  net::Task<base::Result<TeamPtr>> commit(Team team);
  net::Task<base::Result<void>> commit(store::TeamChanges changes);
  [[nodiscard]] base::Result<void> check_use(const Team& team, const std::string& prefix) const;
  [[nodiscard]] base::Result<void> check_removal(const std::string& name) const;
  [[nodiscard]] base::Result<void> plan(const wire::json::Object& document,
                                        store::TeamChanges& todo, Applied& applied) const;
  [[nodiscard]] Team base_of(const std::string& name) const;

  Context& context_;
  Access& access_;
  Registries& registries_;
  bool busy_ = false;
  net::Event idle_;
};

}  // namespace service
