// The store's teams and their members.
#include <algorithm>
#include <iterator>

#include "store/change_feed.h"
#include "store/json_text.h"
#include "store/read_rows.h"
#include "store/store.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kTeamColumns =
    "name, image_prefixes, builds, max_millicpus, max_memory_mb, max_storage_mb, quota_millicpus, "
    "quota_memory_mb, quota_storage_mb, quota_sandboxes, default_storage_mb, lease_sec, "
    "max_lifetime_sec, queue_max_sec, start_max_sec, pids, isolation, network, borrow_millicpus, "
    "borrow_memory_mb, borrow_storage_mb, borrow_sandboxes, lend_millicpus, lend_memory_mb, "
    "lend_storage_mb, lend_sandboxes, reclaim, created_ms, identity_sandboxes, identity_scopes";

// The detail of a change that was planned on what is no longer so; its value is the team.
constexpr std::string_view kChangedElsewhere = "changed_team";

std::optional<int64_t> read_limit(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(row.get_int(column));
}

Result<Team> read_team(const Statement& row) {
  ASSIGN_OR_RETURN(auto image_prefixes, parse_list(row.get_text(1)));
  ASSIGN_OR_RETURN(auto isolation, parse_list(row.get_text(16)));
  ASSIGN_OR_RETURN(auto identity_scopes, parse_list(row.get_text(29)));
  return Team{.name = std::string(row.get_text(0)),
              .image_prefixes = std::move(image_prefixes),
              .builds = row.get_bool(2),
              .max_millicpus = row.get_int(3),
              .max_memory_mb = row.get_int(4),
              .max_storage_mb = row.get_int(5),
              .quota_millicpus = read_limit(row, 6),
              .quota_memory_mb = read_limit(row, 7),
              .quota_storage_mb = read_limit(row, 8),
              .quota_sandboxes = read_limit(row, 9),
              .default_storage_mb = row.get_int(10),
              .lease_sec = row.get_int(11),
              .max_lifetime_sec = row.get_int(12),
              .queue_max_sec = row.get_int(13),
              .start_max_sec = row.get_int(14),
              .pids = row.get_int(15),
              .isolation = std::move(isolation),
              .network = std::string(row.get_text(17)),
              .borrow_millicpus = read_limit(row, 18),
              .borrow_memory_mb = read_limit(row, 19),
              .borrow_storage_mb = read_limit(row, 20),
              .borrow_sandboxes = read_limit(row, 21),
              .lend_millicpus = read_limit(row, 22),
              .lend_memory_mb = read_limit(row, 23),
              .lend_storage_mb = read_limit(row, 24),
              .lend_sandboxes = read_limit(row, 25),
              .reclaim = row.get_bool(26),
              .identity_sandboxes = std::string(row.get_text(28)),
              .identity_scopes = std::move(identity_scopes),
              .created_ms = row.get_int(27),
              .members = {}};
}

struct MemberRow {
  std::string team;
  Member member;
};

Result<MemberRow> read_member(const Statement& row) {
  const auto role = model::parse_role(row.get_text(2));
  if (!role) {
    return fail(ErrorCode::internal, "a member's role in the database is not known");
  }
  return MemberRow{.team = std::string(row.get_text(0)),
                   .member = {.subject = std::string(row.get_text(1)), .role = *role}};
}

Result<std::string> read_text(const Statement& row) { return std::string(row.get_text(0)); }

// The columns that a put of a team changes, as "a = excluded.a, ...".
std::string updates_of_columns() {
  std::string out;
  std::string_view rest = kTeamColumns;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(", "), rest.size());
    const std::string_view column = rest.substr(0, comma);
    if (column != "name" && column != "created_ms") {
      out += base::cat(out.empty() ? "" : ", ", column, " = excluded.", column);
    }
    rest.remove_prefix(std::min(comma + 2, rest.size()));
  }
  return out;
}

}  // namespace

Result<Team> Store::find_team(std::string_view name) {
  ASSIGN_OR_RETURN(auto teams, list_teams());
  for (Team& team : teams) {
    if (team.name == name) {
      return std::move(team);
    }
  }
  return fail(ErrorCode::not_found, "team ", name, " does not exist");
}

Result<void> Store::put(const Team& team) {
  database_.note(notice::kTeams);
  static const std::string sql =
      base::cat("INSERT INTO teams (", kTeamColumns,
                ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, "
                "$17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30) "
                "ON CONFLICT (name) DO UPDATE SET ",
                updates_of_columns());
  RETURN_IF_ERROR(database_.execute(
      sql, team.name, list_text(team.image_prefixes), team.builds, team.max_millicpus,
      team.max_memory_mb, team.max_storage_mb, team.quota_millicpus, team.quota_memory_mb,
      team.quota_storage_mb, team.quota_sandboxes, team.default_storage_mb, team.lease_sec,
      team.max_lifetime_sec, team.queue_max_sec, team.start_max_sec, team.pids,
      list_text(team.isolation), team.network, team.borrow_millicpus, team.borrow_memory_mb,
      team.borrow_storage_mb, team.borrow_sandboxes, team.lend_millicpus, team.lend_memory_mb,
      team.lend_storage_mb, team.lend_sandboxes, team.reclaim, team.created_ms,
      team.identity_sandboxes, list_text(team.identity_scopes)));
  RETURN_IF_ERROR(database_.execute("DELETE FROM members WHERE team = $1", team.name));
  for (const Member& member : team.members) {
    RETURN_IF_ERROR(
        database_.execute("INSERT INTO members (team, subject, role) VALUES ($1, $2, $3)",
                          team.name, member.subject, model::to_string(member.role)));
  }
  return {};
}

Result<void> Store::put_team(const Team& team) {
  return base::with_context(database_.transaction([&] { return put(team); }),
                            base::cat("put team ", team.name));
}

Result<std::string> Store::team_of_sandbox(std::string_view id) {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare("SELECT team FROM sandboxes WHERE id = $1"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(id).step());
  if (!found) {
    return fail(ErrorCode::not_found, "sandbox '", id, "' does not exist");
  }
  return std::string(statement.get_text(0));
}

Result<std::vector<std::string>> Store::delete_tokens_of_former_members(std::string_view team) {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare("DELETE FROM tokens WHERE team = $1 AND of_member AND NOT "
                                     "EXISTS (SELECT 1 FROM members m WHERE m.team = tokens.team "
                                     "AND m.subject = tokens.subject) RETURNING id"));
  database_.note(notice::kTokens);
  return read_rows<std::string>(statement.bind(team), read_text);
}

Result<int64_t> Store::count(std::string_view sql, std::string_view team) {
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool found, statement.bind(team).step());
  return found ? statement.get_int(0) : 0;
}

Result<void> Store::remove_team(std::string_view name) {
  database_.note(notice::kTeams);
  database_.note(notice::kRegistries);
  ASSIGN_OR_RETURN(
      const int64_t sandboxes,
      count("SELECT COUNT(*) FROM sandboxes WHERE team = $1 AND state <> 'deleted'", name));
  ASSIGN_OR_RETURN(const int64_t tokens,
                   count("SELECT COUNT(*) FROM tokens WHERE team = $1", name));
  if (sandboxes > 0 || tokens > 0) {
    auto error = fail(ErrorCode::in_use, "team '", name, "' still has ", sandboxes,
                      " sandboxes and ", tokens, " tokens");
    error.error().details = {{"team", std::string(name)},
                             {"sandboxes", base::cat(sandboxes)},
                             {"tokens", base::cat(tokens)}};
    return error;
  }
  RETURN_IF_ERROR(database_.execute("DELETE FROM sandboxes WHERE team = $1", name));
  RETURN_IF_ERROR(database_.execute(
      "DELETE FROM build_logs WHERE build_id IN (SELECT id FROM builds WHERE team = $1)", name));
  RETURN_IF_ERROR(database_.execute("DELETE FROM builds WHERE team = $1", name));
  RETURN_IF_ERROR(database_.execute("DELETE FROM registries WHERE team = $1", name));
  RETURN_IF_ERROR(database_.execute("DELETE FROM teams WHERE name = $1", name));
  if (database_.changes() == 0) {
    return fail(ErrorCode::not_found, "team '", name, "' does not exist");
  }
  return {};
}

Result<void> Store::check_unchanged(const TeamChanges& changes) {
  ASSIGN_OR_RETURN(const auto present, list_teams());
  const auto check = [&](const std::string& name) -> Result<void> {
    const auto now = std::ranges::find(present, name, &Team::name);
    const auto then = std::ranges::find(*changes.were, name, &Team::name);
    const bool is_there = now != present.end();
    const bool was_there = then != changes.were->end();
    if (is_there != was_there || (is_there && *now != *then)) {
      auto error = fail(ErrorCode::conflict, "team '", name,
                        "' was changed through another gateway at this moment: ask again");
      error.error().details = {{std::string(kChangedElsewhere), name}};
      return error;
    }
    return {};
  };
  for (const Team& team : changes.puts) {
    RETURN_IF_ERROR(check(team.name));
  }
  for (const std::string& name : changes.removals) {
    RETURN_IF_ERROR(check(name));
  }
  return {};
}

bool Store::was_changed_elsewhere(const base::Error& error) {
  return error.code == ErrorCode::conflict && !error.details.empty() &&
         error.details.front().first == kChangedElsewhere;
}

Result<std::vector<std::string>> Store::change_teams(const TeamChanges& changes) {
  return database_.transaction([&]() -> Result<std::vector<std::string>> {
    if (changes.were) {
      RETURN_IF_ERROR(check_unchanged(changes));
    }
    std::vector<std::string> gone;
    for (const Team& team : changes.puts) {
      RETURN_IF_ERROR(put(team));
      ASSIGN_OR_RETURN(auto ids, delete_tokens_of_former_members(team.name));
      std::ranges::move(ids, std::back_inserter(gone));
    }
    for (const std::string& name : changes.removals) {
      RETURN_IF_ERROR(remove_team(name));
    }
    return gone;
  });
}

Result<std::vector<Team>> Store::list_teams() {
  static const std::string sql = base::cat("SELECT ", kTeamColumns, " FROM teams ORDER BY name");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(auto teams, read_rows<Team>(statement, read_team));
  ASSIGN_OR_RETURN(
      Statement members,
      database_.prepare("SELECT team, subject, role FROM members ORDER BY team, subject"));
  ASSIGN_OR_RETURN(auto rows, read_rows<MemberRow>(members, read_member));
  for (MemberRow& row : rows) {
    const auto team = std::ranges::find(teams, row.team, &Team::name);
    if (team != teams.end()) {
      team->members.push_back(std::move(row.member));
    }
  }
  return teams;
}

}  // namespace store
