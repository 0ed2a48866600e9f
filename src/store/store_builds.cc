// Image builds.
#include "store/read_rows.h"
#include "store/store.h"

namespace store {
namespace {

using base::cat;
using base::ErrorCode;
using base::fail;

constexpr std::string_view kColumns =
    "id, team, owner, digest, state, reason, message, step, steps_done, steps, builder, "
    "created_ms, started_ms, ended_ms, claimed_by, claimed_until_ms";
constexpr std::string_view kUnderWay = "state IN ('queued', 'running')";

Result<Build> read_build(const Statement& row) {
  return Build{.id = std::string(row.get_text(0)),
               .team = std::string(row.get_text(1)),
               .owner = std::string(row.get_text(2)),
               .digest = std::string(row.get_text(3)),
               .state = std::string(row.get_text(4)),
               .reason = std::string(row.get_text(5)),
               .message = std::string(row.get_text(6)),
               .step = std::string(row.get_text(7)),
               .steps_done = row.get_int(8),
               .steps = row.get_int(9),
               .builder = std::string(row.get_text(10)),
               .created_ms = row.get_int(11),
               .started_ms = row.get_int(12),
               .ended_ms = row.get_int(13),
               .claimed_by = std::string(row.get_text(14)),
               .claimed_until_ms = row.get_int(15)};
}

Result<std::string> read_id(const Statement& row) { return std::string(row.get_text(0)); }

std::unexpected<base::Error> no_build(std::string_view id) {
  return fail(ErrorCode::not_found, "build '", id, "' does not exist");
}

// "created_ms:id" of the last row of a page.
Result<std::pair<int64_t, std::string>> parse_cursor(std::string_view cursor) {
  const size_t colon = cursor.find(':');
  const auto created = base::parse_number<int64_t>(cursor.substr(0, colon));
  if (colon == std::string_view::npos || !created) {
    return base::fail_field("cursor", "'cursor' is not one that a list answered with");
  }
  return std::pair(*created, std::string(cursor.substr(colon + 1)));
}

}  // namespace

Result<Build> Store::insert_build(const Build& build, int64_t running_max) {
  const auto work = [&]() -> Result<Build> {
    ASSIGN_OR_RETURN(Statement same,
                     database_.prepare(cat("SELECT ", kColumns, " FROM builds WHERE team = $1 AND ",
                                           "digest = $2 AND ", kUnderWay)));
    ASSIGN_OR_RETURN(const auto found,
                     read_rows<Build>(same.bind(build.team, build.digest), read_build));
    if (!found.empty()) {
      return found.front();
    }
    ASSIGN_OR_RETURN(
        const int64_t running,
        count(cat("SELECT COUNT(*) FROM builds WHERE team = $1 AND ", kUnderWay), build.team));
    if (running >= running_max) {
      return fail(ErrorCode::overloaded, "team '", build.team, "' has ", running,
                  " builds under way, as many as it may");
    }
    RETURN_IF_ERROR(database_.execute(
        cat("INSERT INTO builds (", kColumns, ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ",
            "$11, $12, $13, $14, $15, $16)"),
        build.id, build.team, build.owner, build.digest, build.state, build.reason, build.message,
        build.step, build.steps_done, build.steps, build.builder, build.created_ms,
        build.started_ms, build.ended_ms, build.claimed_by, build.claimed_until_ms));
    return build;
  };
  return database_.transaction(work);
}

Result<Build> Store::find_build(std::string_view team, std::string_view id) {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare(cat("SELECT ", kColumns, " FROM builds WHERE team = $1 AND id = $2")));
  ASSIGN_OR_RETURN(const auto rows, read_rows<Build>(statement.bind(team, id), read_build));
  return rows.empty() ? Result<Build>(no_build(id)) : rows.front();
}

Result<std::string> Store::team_of_build(std::string_view id) {
  ASSIGN_OR_RETURN(Statement statement, database_.prepare("SELECT team FROM builds WHERE id = $1"));
  ASSIGN_OR_RETURN(const auto rows, read_rows<std::string>(statement.bind(id), read_id));
  return rows.empty() ? Result<std::string>(no_build(id)) : rows.front();
}

Result<Build> Store::find_build_of_digest(std::string_view team, std::string_view digest) {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare(cat("SELECT ", kColumns, " FROM builds WHERE team = $1 AND digest = $2 ",
                            "AND state IN ('queued', 'running', 'succeeded') ",
                            "ORDER BY created_ms DESC LIMIT 1")));
  ASSIGN_OR_RETURN(const auto rows, read_rows<Build>(statement.bind(team, digest), read_build));
  return rows.empty() ? Result<Build>(no_build(digest)) : rows.front();
}

Result<Page<Build>> Store::list_builds(const std::optional<std::vector<std::string>>& teams,
                                       std::string_view state, int64_t limit,
                                       std::string_view cursor) {
  constexpr int64_t kEnd = int64_t{1} << 62;
  std::pair<int64_t, std::string> before(kEnd, "");
  if (!cursor.empty()) {
    ASSIGN_OR_RETURN(before, parse_cursor(cursor));
  }
  std::string sql = cat("SELECT ", kColumns, " FROM builds WHERE ",
                        "(created_ms < $1 OR (created_ms = $2 AND id < $3))");
  int next = 4;
  if (!state.empty()) {
    sql += cat(" AND state = $", next++);
  }
  if (teams) {
    sql += " AND team IN (";
    for (size_t i = 0; i < teams->size(); ++i) {
      sql += cat(i == 0 ? "$" : ", $", next++);
    }
    sql += ")";
  }
  sql += cat(" ORDER BY created_ms DESC, id DESC LIMIT $", next);
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  statement.bind(before.first, before.first, before.second);
  if (!state.empty()) {
    statement.bind(state);
  }
  for (const std::string& team : teams.value_or(std::vector<std::string>{})) {
    statement.bind(team);
  }
  ASSIGN_OR_RETURN(auto rows, read_rows<Build>(statement.bind(limit + 1), read_build));
  Page<Build> page;
  if (static_cast<int64_t>(rows.size()) > limit) {
    rows.pop_back();
    page.next_cursor = cat(rows.back().created_ms, ":", rows.back().id);
  }
  page.items = std::move(rows);
  return page;
}

Result<std::vector<Build>> Store::builds_under_way() {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare(cat("SELECT ", kColumns, " FROM builds WHERE ", kUnderWay)));
  return read_rows<Build>(statement, read_build);
}

Result<bool> Store::update_build(const Build& build) {
  const auto work = [&]() -> Result<bool> {
    RETURN_IF_ERROR(database_.execute(
        cat("UPDATE builds SET state = $1, reason = $2, message = $3, step = $4, steps_done = $5, ",
            "steps = $6, started_ms = $7, ended_ms = $8 WHERE id = $9 AND ", kUnderWay),
        build.state, build.reason, build.message, build.step, build.steps_done, build.steps,
        build.started_ms, build.ended_ms, build.id));
    return database_.changes() == 1;
  };
  return database_.transaction(work);
}

Result<bool> Store::claim_build(std::string_view id, std::string_view who, int64_t now_ms,
                                int64_t until_ms) {
  const auto work = [&]() -> Result<bool> {
    RETURN_IF_ERROR(database_.execute(
        cat("UPDATE builds SET claimed_by = $1, claimed_until_ms = $2 WHERE id = $3 AND ",
            "claimed_until_ms < $4 AND ", kUnderWay),
        who, until_ms, id, now_ms));
    return database_.changes() == 1;
  };
  return database_.transaction(work);
}

Result<void> Store::renew_build_claims(std::string_view who, int64_t until_ms) {
  return database_.execute(
      cat("UPDATE builds SET claimed_until_ms = $1 WHERE claimed_by = $2 AND ", kUnderWay),
      until_ms, who);
}

Result<int64_t> Store::builder_used_ms(std::string_view builder) {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare("SELECT created_ms, ended_ms FROM builds WHERE builder = $1 "
                                     "ORDER BY created_ms DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(builder).step());
  return found ? std::max(statement.get_int(0), statement.get_int(1)) : 0;
}

Result<void> Store::put_build_log(std::string_view id, std::string_view text) {
  return database_.execute(
      "INSERT INTO build_logs (build_id, text) VALUES ($1, $2) "
      "ON CONFLICT (build_id) DO UPDATE SET text = excluded.text",
      id, text);
}

Result<std::string> Store::find_build_log(std::string_view id) {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare("SELECT text FROM build_logs WHERE build_id = $1"));
  ASSIGN_OR_RETURN(const auto rows, read_rows<std::string>(statement.bind(id), read_id));
  return rows.empty() ? "" : rows.front();
}

Result<int64_t> Store::forget_builds_before(int64_t ended_ms, int64_t limit) {
  const auto work = [&]() -> Result<int64_t> {
    ASSIGN_OR_RETURN(Statement statement,
                     database_.prepare("SELECT id FROM builds WHERE ended_ms > 0 AND ended_ms < $1 "
                                       "ORDER BY created_ms LIMIT $2"));
    ASSIGN_OR_RETURN(const auto ids,
                     read_rows<std::string>(statement.bind(ended_ms, limit), read_id));
    for (const std::string& id : ids) {
      RETURN_IF_ERROR(database_.execute("DELETE FROM build_logs WHERE build_id = $1", id));
      RETURN_IF_ERROR(database_.execute("DELETE FROM builds WHERE id = $1", id));
    }
    return static_cast<int64_t>(ids.size());
  };
  return database_.transaction(work);
}

}  // namespace store
