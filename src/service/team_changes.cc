#include "service/team_changes.h"

#include <algorithm>
#include <set>

#include "service/cpus.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;
using net::Task;
using wire::json::Object;
using wire::json::Reader;

// All teams are in memory, and a list of them has one page.
constexpr size_t kTeamsMax = 1000;
// Of one change that other gateways' overtake: each time one of those was made, so somebody gets
// on.
constexpr int kRunsMax = 20;

struct Use {
  int64_t millicpus = 0;
  int64_t memory_mb = 0;
  int64_t storage_mb = 0;
  int64_t sandboxes = 0;
};

// What a team's sandboxes hold of its quota.
Use use_of(const LiveSandboxes& live, const std::string& team) {
  Use use;
  for (const auto& [id, one] : live.all()) {
    const SandboxRow& row = one->row;
    if (row.team == team &&
        (row.state == SandboxState::starting || row.state == SandboxState::ready)) {
      use.millicpus += row.resources.millicpus;
      use.memory_mb += row.resources.memory_mb;
      use.storage_mb += row.resources.storage_mb;
      ++use.sandboxes;
    }
  }
  return use;
}

Result<void> check_lowered(const std::string& field, const std::optional<int64_t>& before,
                           const std::optional<int64_t>& after, int64_t used,
                           const std::string& used_text) {
  const bool is_lowered = after && (!before || *after < *before);
  if (!is_lowered || used <= *after) {
    return {};
  }
  auto error =
      base::fail(ErrorCode::in_use, "'", field, "' would be below what is used: ", used_text);
  error.error().details = {{"field", field}, {"used", used_text}};
  return error;
}

std::unexpected<base::Error> too_many_teams() {
  return base::fail(ErrorCode::conflict, "more than ", kTeamsMax, " teams");
}

}  // namespace

class TeamChanges::Turn {
 public:
  explicit Turn(TeamChanges& changes) : changes_(changes) { changes_.busy_ = true; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    changes_.busy_ = false;
    changes_.idle_.notify();
  }

 private:
  TeamChanges& changes_;
};

Task<Result<TeamChanges::TurnPtr>> TeamChanges::take_turn() {
  while (busy_) {
    const auto wake = co_await idle_.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the gateway stops");
    }
  }
  auto turn = std::make_shared<const Turn>(*this);
  if (!context_.replicas.alone()) {
    auto read = [this] { return context_.store.list_teams(); };
    CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
    context_.teams.replace(std::move(rows));
  }
  co_return TurnPtr(std::move(turn));
}

Team TeamChanges::base_of(const std::string& name) const {
  const TeamPtr present = context_.teams.find(name);
  Team base{.name = name, .created_ms = context_.now_ms(), .members = {}};
  if (present) {
    base.created_ms = present->created_ms;
    base.members = present->members;
  }
  return base;
}

Result<void> TeamChanges::check_use(const Team& team, const std::string& prefix) const {
  const TeamPtr present = context_.teams.find(team.name);
  if (!present) {
    return {};
  }
  const Use use = use_of(context_.live, team.name);
  const std::string quota = prefix.empty() ? "quota" : base::cat(prefix, ".quota");
  RETURN_IF_ERROR(check_lowered(quota + ".cpus", present->quota_millicpus, team.quota_millicpus,
                                use.millicpus, wire::json::serialize(cpus_json(use.millicpus))));
  RETURN_IF_ERROR(check_lowered(quota + ".memory_mb", present->quota_memory_mb,
                                team.quota_memory_mb, use.memory_mb, base::cat(use.memory_mb)));
  RETURN_IF_ERROR(check_lowered(quota + ".storage_mb", present->quota_storage_mb,
                                team.quota_storage_mb, use.storage_mb, base::cat(use.storage_mb)));
  return check_lowered(quota + ".sandboxes", present->quota_sandboxes, team.quota_sandboxes,
                       use.sandboxes, base::cat(use.sandboxes));
}

void TeamChanges::note_known(const std::string& name, std::vector<Team>& out) const {
  if (const TeamPtr known = context_.teams.find(name)) {
    out.push_back(*known);
  }
}

Task<Result<void>> TeamChanges::commit(store::TeamChanges changes) {
  // What is known to be gone here is to be gone there.
  co_await context_.journal.flush();
  if (context_.replicas.shared()) {
    changes.were.emplace();
    for (const Team& team : changes.puts) {
      note_known(team.name, *changes.were);
    }
    for (const std::string& name : changes.removals) {
      note_known(name, *changes.were);
    }
  }
  auto write = [this, &changes] { return context_.store.change_teams(changes); };
  CO_ASSIGN_OR_RETURN(const auto gone, co_await context_.pool.run(std::move(write)));
  for (Team& team : changes.puts) {
    context_.teams.put(std::move(team));
  }
  for (const std::string& name : changes.removals) {
    context_.teams.erase(name);
    registries_.forget(name);
  }
  for (const std::string& id : gone) {
    access_.drop(id);
  }
  co_return Result<void>{};
}

Task<Result<TeamPtr>> TeamChanges::commit(Team team) {
  CO_RETURN_IF_ERROR(check_use(team, ""));
  if (!context_.teams.find(team.name) && context_.teams.all().size() >= kTeamsMax) {
    co_return too_many_teams();
  }
  const std::string name = team.name;
  store::TeamChanges changes;
  changes.puts.push_back(std::move(team));
  CO_RETURN_IF_ERROR(co_await commit(std::move(changes)));
  co_return context_.teams.get(name);
}

Task<Result<TeamPtr>> TeamChanges::create_once(std::string body) {
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  Reader reader(object);
  CO_ASSIGN_OR_RETURN(const auto name, reader.required<std::string>("name"));
  CO_RETURN_IF_ERROR(check_team_name("name", name));
  CO_ASSIGN_OR_RETURN(const TurnPtr turn, co_await take_turn());
  if (context_.teams.find(name)) {
    co_return base::fail(ErrorCode::conflict, "team '", name, "' exists");
  }
  CO_ASSIGN_OR_RETURN(auto team, parse_team(object, "", base_of(name)));
  co_return co_await commit(std::move(team));
}

Task<Result<TeamChanges::Put>> TeamChanges::put_once(std::string name, std::string body) {
  CO_RETURN_IF_ERROR(check_team_name("name", name));
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  CO_ASSIGN_OR_RETURN(const TurnPtr turn, co_await take_turn());
  const bool fresh = context_.teams.find(name) == nullptr;
  CO_ASSIGN_OR_RETURN(auto team, parse_team(object, "", base_of(name)));
  CO_ASSIGN_OR_RETURN(const TeamPtr done, co_await commit(std::move(team)));
  co_return Put{.team = done, .fresh = fresh};
}

Task<Result<TeamPtr>> TeamChanges::patch_once(std::string name, std::string body,
                                              bool members_only) {
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  CO_ASSIGN_OR_RETURN(const TurnPtr turn, co_await take_turn());
  CO_ASSIGN_OR_RETURN(const TeamPtr present, context_.teams.get(name));
  CO_ASSIGN_OR_RETURN(auto team, parse_team(object, "", *present));
  for (const FieldChange& change : changes_between(*present, team)) {
    if (members_only && change.field != "members") {
      auto error =
          base::fail(ErrorCode::forbidden, "'", change.field, "' is set by admins of the platform");
      error.error().details = {{"field", change.field}};
      co_return error;
    }
  }
  co_return co_await commit(std::move(team));
}

Result<void> TeamChanges::check_removal(const std::string& name) const {
  if (name == kPlatformTeam) {
    return base::fail(ErrorCode::conflict, "team '", name, "' is the platform's own and stays");
  }
  const auto tokens = access_.all();
  const auto held = std::ranges::count(tokens, name, &store::Token::team);
  int64_t sandboxes = 0;
  for (const auto& [id, live] : context_.live.all()) {
    sandboxes += live->row.team == name ? 1 : 0;
  }
  if (held == 0 && sandboxes == 0) {
    return {};
  }
  auto error = base::fail(ErrorCode::in_use, "team '", name, "' still has ", sandboxes,
                          " sandboxes and ", held, " tokens");
  error.error().details = {
      {"team", name}, {"sandboxes", base::cat(sandboxes)}, {"tokens", base::cat(held)}};
  return error;
}

Task<Result<void>> TeamChanges::remove_once(std::string name) {
  CO_ASSIGN_OR_RETURN(const TurnPtr turn, co_await take_turn());
  CO_RETURN_IF_ERROR(context_.teams.get(name));
  CO_RETURN_IF_ERROR(check_removal(name));
  store::TeamChanges changes;
  changes.removals.push_back(std::move(name));
  co_return co_await commit(std::move(changes));
}

Task<Result<store::Member>> TeamChanges::put_member_once(std::string name, std::string subject,
                                                         std::string body) {
  CO_RETURN_IF_ERROR(check_subject("subject", subject));
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  Reader reader(object);
  CO_ASSIGN_OR_RETURN(const auto role_text, reader.required<std::string>("role"));
  CO_RETURN_IF_ERROR(reader.finish());
  CO_ASSIGN_OR_RETURN(const auto role, parse_role_field("role", role_text));
  CO_ASSIGN_OR_RETURN(const TurnPtr turn, co_await take_turn());
  CO_ASSIGN_OR_RETURN(const TeamPtr present, context_.teams.get(name));
  Team team = *present;
  const store::Member member{.subject = std::move(subject), .role = role};
  const auto place =
      std::ranges::lower_bound(team.members, member.subject, {}, &store::Member::subject);
  if (place != team.members.end() && place->subject == member.subject) {
    place->role = role;
  } else if (team.members.size() >= kMembersMax) {
    co_return base::fail(ErrorCode::conflict, "more than ", kMembersMax, " members");
  } else {
    team.members.insert(place, member);
  }
  CO_RETURN_IF_ERROR(co_await commit(std::move(team)));
  co_return member;
}

Task<Result<void>> TeamChanges::remove_member_once(std::string name, std::string subject) {
  CO_ASSIGN_OR_RETURN(const TurnPtr turn, co_await take_turn());
  CO_ASSIGN_OR_RETURN(const TeamPtr present, context_.teams.get(name));
  Team team = *present;
  const auto gone = std::erase_if(
      team.members, [&](const store::Member& member) { return member.subject == subject; });
  if (gone == 0) {
    co_return base::fail(ErrorCode::not_found, "team '", name, "' has no member '", subject, "'");
  }
  CO_RETURN_IF_ERROR(co_await commit(std::move(team)));
  co_return Result<void>{};
}

Result<void> TeamChanges::plan(const Object& document, store::TeamChanges& todo,
                               Applied& applied) const {
  Reader reader(document);
  ASSIGN_OR_RETURN(const auto teams, reader.required<wire::json::Array>("teams"));
  ASSIGN_OR_RETURN(const auto prune, reader.optional<bool>("prune"));
  RETURN_IF_ERROR(reader.finish());
  if (teams.size() > kTeamsMax) {
    return fail_field("teams", "more than ", kTeamsMax, " teams");
  }
  std::set<std::string> named;
  for (const wire::json::Value& value : teams) {
    const std::string field = base::cat("teams[", named.size(), "]");
    if (!value.is_object()) {
      return fail_field(field, "'", field, "' must be an object");
    }
    Reader one(value.get_object(), field);
    ASSIGN_OR_RETURN(const auto name, one.required<std::string>("name"));
    RETURN_IF_ERROR(check_team_name(one.path("name"), name));
    if (!named.insert(name).second) {
      return fail_field(one.path("name"), "team '", name, "' is defined twice");
    }
    ASSIGN_OR_RETURN(auto team, parse_team(value.get_object(), field, base_of(name)));
    RETURN_IF_ERROR(check_use(team, field));
    const TeamPtr present = context_.teams.find(name);
    auto fields = changes_between(present ? *present : Team{.name = name, .members = {}}, team);
    const std::string_view action = !present ? "create" : fields.empty() ? "none" : "update";
    applied.changes.push_back({.team = name, .action = action, .fields = std::move(fields)});
    if (action != "none") {
      todo.puts.push_back(std::move(team));
    }
  }
  for (const auto& [name, present] : context_.teams.all()) {
    if (prune.value_or(false) && !named.contains(name) && name != kPlatformTeam) {
      RETURN_IF_ERROR(check_removal(name));
      applied.changes.push_back({.team = name, .action = "delete", .fields = {}});
      todo.removals.push_back(name);
    }
  }
  std::ranges::sort(applied.changes, {}, &TeamChange::team);
  applied.changes_something = !todo.puts.empty() || !todo.removals.empty();
  return {};
}

Task<Result<TeamChanges::Applied>> TeamChanges::apply_once(Object document, bool dry_run) {
  CO_ASSIGN_OR_RETURN(const TurnPtr turn, co_await take_turn());
  store::TeamChanges todo;
  Applied applied;
  CO_RETURN_IF_ERROR(plan(document, todo, applied));
  if (context_.teams.all().size() + todo.puts.size() > kTeamsMax + todo.removals.size()) {
    co_return too_many_teams();
  }
  if (applied.changes_something && !dry_run) {
    CO_RETURN_IF_ERROR(co_await commit(std::move(todo)));
  }
  co_return applied;
}

// --- each until no other gateway gets in between

template <typename Result, typename... Arguments>
Task<Result> TeamChanges::until_undisturbed(Task<Result> (TeamChanges::*change)(Arguments...),
                                            std::type_identity_t<Arguments>... arguments) {
  for (int run = 1;; ++run) {
    auto done = co_await (this->*change)(arguments...);
    if (done || run == kRunsMax || !store::Store::was_changed_elsewhere(done.error())) {
      co_return done;
    }
  }
}

Task<Result<TeamPtr>> TeamChanges::create(std::string body) {
  return until_undisturbed(&TeamChanges::create_once, std::move(body));
}

Task<Result<TeamChanges::Put>> TeamChanges::put(std::string name, std::string body) {
  return until_undisturbed(&TeamChanges::put_once, std::move(name), std::move(body));
}

Task<Result<TeamPtr>> TeamChanges::patch(std::string name, std::string body, bool members_only) {
  return until_undisturbed(&TeamChanges::patch_once, std::move(name), std::move(body),
                           members_only);
}

Task<Result<void>> TeamChanges::remove(std::string name) {
  return until_undisturbed(&TeamChanges::remove_once, std::move(name));
}

Task<Result<store::Member>> TeamChanges::put_member(std::string name, std::string subject,
                                                    std::string body) {
  return until_undisturbed(&TeamChanges::put_member_once, std::move(name), std::move(subject),
                           std::move(body));
}

Task<Result<void>> TeamChanges::remove_member(std::string name, std::string subject) {
  return until_undisturbed(&TeamChanges::remove_member_once, std::move(name), std::move(subject));
}

Task<Result<TeamChanges::Applied>> TeamChanges::apply(Object document, bool dry_run) {
  return until_undisturbed(&TeamChanges::apply_once, std::move(document), dry_run);
}

}  // namespace service
