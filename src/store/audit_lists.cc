// Lists of the audit log: pages, the log as lines, and activity. Whatever is asked, one call looks
// at a bounded number of rows: what an index can find is found by it, the rest is looked for in the
// next so many rows.
#include <algorithm>
#include <map>

#include "store/query.h"
#include "store/store.h"
#include "wire/audit_chain.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

// One page holds at most this many, whoever asks (the API's own limit).
constexpr int64_t kPageMax = 1000;
// Rows that a page looks at for what no index finds: some milliseconds.
constexpr int64_t kLookMax = 1500;
// Of a piece of lines; with the longest rows some MiB.
constexpr int64_t kPieceIds = 500;
// Sandboxes whose time is counted in one answer of activity.
constexpr int64_t kSandboxesMax = 50'000;
constexpr std::string_view kColumns =
    "id, team, sandbox_id, at_ms, event, caller, token, remote, status, error, duration_ms, "
    "details, hash";

AuditRow read_audit(const Statement& row) {
  return AuditRow{.id = row.get_int(0),
                  .team = std::string(row.get_text(1)),
                  .sandbox = std::string(row.get_text(2)),
                  .at_ms = row.get_int(3),
                  .event = std::string(row.get_text(4)),
                  .caller = std::string(row.get_text(5)),
                  .token = std::string(row.get_text(6)),
                  .remote = std::string(row.get_text(7)),
                  .status = row.get_int(8),
                  .error = std::string(row.get_text(9)),
                  .duration_ms = row.get_int(10),
                  .details_json = std::string(row.get_text(11)),
                  .hash = std::string(row.get_text(12))};
}

void add_equal(Query& query, std::string_view column, const std::string& value) {
  query.add(base::cat(" AND ", column, " = "));
  query.add_value(value);
}

void add_times(Query& query, const AuditFilter& filter) {
  if (filter.from_ms != 0) {
    query.add(" AND at_ms >= ");
    query.add_value(filter.from_ms);
  }
  if (filter.until_ms != 0) {
    query.add(" AND at_ms < ");
    query.add_value(filter.until_ms);
  }
}

void add_result(Query& query, const std::string& result) {
  if (result == "ok") {
    query.add(" AND error = ''");
  } else if (result == "error") {
    query.add(" AND error <> ''");
  } else {
    add_equal(query, "error", result);
  }
}

void add_text(Query& query, const std::string& text) {
  const std::string pattern = contains_pattern(text);
  std::string_view before = " AND (lower(";
  for (const std::string_view column : {"details", "caller", "sandbox_id", "event", "remote"}) {
    query.add(base::cat(before, column, ") LIKE "));
    query.add_value(pattern);
    query.add(" ESCAPE '\\'");
    before = " OR lower(";
  }
  query.add(")");
}

// The filter in two: what decides which index is walked, and what is looked at on the way.
struct Parts {
  bool by_sandbox = false;
  bool by_caller = false;
  bool by_event = false;
  bool by_failure = false;
};

Parts parts_of(const AuditFilter& filter) {
  Parts parts;
  parts.by_sandbox = !filter.sandbox.empty();
  const bool is_open = !parts.by_sandbox && filter.team.has_value();
  parts.by_caller = is_open && !filter.caller.empty();
  parts.by_event = is_open && !parts.by_caller && !filter.event.empty();
  parts.by_failure = is_open && !parts.by_caller && !parts.by_event && !filter.result.empty() &&
                     filter.result != "ok";
  return parts;
}

void add_walked(Query& query, const AuditFilter& filter, const Parts& parts) {
  if (filter.team) {
    add_equal(query, "team", *filter.team);
  }
  if (parts.by_sandbox) {
    add_equal(query, "sandbox_id", filter.sandbox);
  }
  if (parts.by_caller) {
    add_equal(query, "caller", filter.caller);
  }
  if (parts.by_event) {
    add_equal(query, "event", filter.event);
  }
  if (parts.by_failure) {
    query.add(" AND error <> ''");
  }
  add_times(query, filter);
}

// False: there is nothing of that kind.
bool add_looked_at(Query& query, const AuditFilter& filter, const Parts& parts) {
  const size_t before = query.text().size();
  if (!filter.caller.empty() && !parts.by_caller) {
    add_equal(query, "caller", filter.caller);
  }
  if (!filter.event.empty() && !parts.by_event) {
    add_equal(query, "event", filter.event);
  }
  if (!filter.result.empty() && !(parts.by_failure && filter.result == "error")) {
    add_result(query, filter.result);
  }
  if (!filter.text.empty()) {
    add_text(query, filter.text);
  }
  return query.text().size() > before;
}

// A row's place in the order of lists: "AT_MS.ID".
std::string place(int64_t at_ms, int64_t id) { return base::cat(at_ms, ".", id); }

Result<void> add_cursor(Query& query, const std::string& cursor) {
  if (cursor.empty()) {
    return {};
  }
  const size_t dot = std::min(cursor.find('.'), cursor.size());
  const auto at_ms = base::parse_number<int64_t>(std::string_view(cursor).substr(0, dot));
  const auto id = base::parse_number<int64_t>(
      std::string_view(cursor).substr(std::min(dot + 1, cursor.size())));
  if (!at_ms || !id) {
    return base::fail_field("cursor", "the cursor is not one that a list has given");
  }
  query.add(" AND (at_ms, id) < (");
  query.add_value(*at_ms);
  query.add(", ");
  query.add_value(*id);
  query.add(")");
  return {};
}

constexpr std::string_view kNewestFirst = " ORDER BY at_ms DESC, id DESC";

Result<std::vector<AuditRow>> read_rows(Database& database, const Query& query) {
  ASSIGN_OR_RETURN(Statement statement, database.prepare(query.text()));
  query.bind_to(statement);
  std::vector<AuditRow> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    out.push_back(read_audit(statement));
  }
}

// The place of the last row that a page has looked at; empty: it saw the end.
Result<std::string> last_looked_at(Database& database, const AuditFilter& filter,
                                   const Parts& parts) {
  Query query("SELECT at_ms, id FROM audit_logs WHERE TRUE");
  add_walked(query, filter, parts);
  RETURN_IF_ERROR(add_cursor(query, filter.cursor));
  query.add(base::cat(kNewestFirst, " LIMIT 1 OFFSET ", kLookMax - 1));
  ASSIGN_OR_RETURN(Statement statement, database.prepare(query.text()));
  query.bind_to(statement);
  ASSIGN_OR_RETURN(const bool found, statement.step());
  return found ? place(statement.get_int(0), statement.get_int(1)) : "";
}

// Of one sandbox, with event and times of the filter.
Query select_of_sandbox(std::string_view what, std::string_view team, std::string_view sandbox,
                        const AuditFilter& filter) {
  Query query(base::cat("SELECT ", what, " FROM audit_logs WHERE sandbox_id = "));
  query.add_value(sandbox);
  query.add(" AND team = ");
  query.add_value(team);
  if (!filter.event.empty()) {
    add_equal(query, "event", filter.event);
  }
  add_times(query, filter);
  return query;
}

}  // namespace

Result<Page<AuditRow>> Store::page_audit(const AuditFilter& filter) {
  const int64_t limit = std::clamp<int64_t>(filter.limit, 1, kPageMax);
  const Parts parts = parts_of(filter);
  Query walked(base::cat("SELECT ", kColumns, " FROM audit_logs WHERE TRUE"));
  add_walked(walked, filter, parts);
  RETURN_IF_ERROR(add_cursor(walked, filter.cursor));
  walked.add(kNewestFirst);
  Query query = walked;
  query.wrap(base::cat("SELECT ", kColumns, " FROM ("),
             base::cat(" LIMIT ", kLookMax, ") AS looked_at WHERE TRUE"));
  const bool is_narrowed = add_looked_at(query, filter, parts);
  query.add(kNewestFirst);
  Query& chosen = is_narrowed ? query : walked;
  chosen.add(" LIMIT ");
  chosen.add_value(limit + 1);
  Page<AuditRow> page;
  ASSIGN_OR_RETURN(page.items, read_rows(database_, chosen));
  if (static_cast<int64_t>(page.items.size()) > limit) {
    page.items.pop_back();
    page.next_cursor = place(page.items.back().at_ms, page.items.back().id);
  } else if (is_narrowed) {
    ASSIGN_OR_RETURN(page.next_cursor, last_looked_at(database_, filter, parts));
  }
  return page;
}

Result<Page<AuditRow>> Store::page_audit(std::string_view team, std::string_view sandbox,
                                         AuditFilter filter) {
  RETURN_IF_ERROR(find(team, sandbox));
  filter.team = team;
  filter.sandbox = sandbox;
  return page_audit(filter);
}

Result<std::vector<AuditRow>> Store::list_audit(std::string_view team, std::string_view sandbox,
                                                const AuditFilter& filter) {
  RETURN_IF_ERROR(find(team, sandbox));
  Query query = select_of_sandbox(kColumns, team, sandbox, filter);
  query.add(base::cat(kNewestFirst, " LIMIT "));
  query.add_value(std::clamp<int64_t>(filter.limit, 1, kPageMax));
  query.add(" OFFSET ");
  query.add_value(std::max<int64_t>(filter.skip, 0));
  return read_rows(database_, query);
}

Result<int64_t> Store::count_audit(std::string_view team, std::string_view sandbox,
                                   const AuditFilter& filter) {
  RETURN_IF_ERROR(find(team, sandbox));
  const Query query = select_of_sandbox("COUNT(*)", team, sandbox, filter);
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(query.text()));
  query.bind_to(statement);
  ASSIGN_OR_RETURN(const bool found, statement.step());
  return found ? statement.get_int(0) : 0;
}

Result<AuditRow> Store::find_audit(std::string_view team, std::string_view sandbox, int64_t id) {
  static const std::string sql = base::cat(
      "SELECT ", kColumns, " FROM audit_logs WHERE id = $1 AND sandbox_id = $2 AND team = $3");
  RETURN_IF_ERROR(find(team, sandbox));
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool found, statement.bind(id, sandbox, team).step());
  if (!found) {
    return fail(ErrorCode::not_found, "audit log ", id, " does not exist");
  }
  return read_audit(statement);
}

namespace {

// Where the rows begin, and the hash of what was cut off before them.
struct Beginning {
  int64_t first_id = 0;
  model::AuditHead cut;
};

Result<Beginning> beginning_of(Database& database) {
  ASSIGN_OR_RETURN(
      Statement statement,
      database.prepare("SELECT cut_id, cut_hash, (SELECT COALESCE(MIN(id), 0) FROM audit_logs) "
                       "FROM audit_head WHERE name = 'audit'"));
  ASSIGN_OR_RETURN(const bool found, statement.step());
  if (!found) {
    return fail(ErrorCode::internal, "database: the audit log has no head");
  }
  return Beginning{.first_id = statement.get_int(2),
                   .cut = {.id = statement.get_int(0), .hash = std::string(statement.get_text(1))}};
}

// `prev` of a row, as its neighbours say today.
std::string_view prev_of(const AuditRow& row, std::string_view hash_before,
                         const Beginning& beginning) {
  if (!hash_before.empty()) {
    return hash_before;
  }
  const bool is_behind_cut = row.id == beginning.cut.id + 1 && !beginning.cut.hash.empty();
  return is_behind_cut ? std::string_view(beginning.cut.hash) : wire::kAuditGenesis;
}

}  // namespace

Result<AuditPiece> Store::audit_lines(const AuditFilter& filter, int64_t after, int64_t until) {
  ASSIGN_OR_RETURN(const Beginning beginning, beginning_of(database_));
  after = std::max(after, beginning.first_id - 1);
  AuditPiece piece{.through = std::min(until, after + kPieceIds)};
  if (beginning.first_id == 0 || piece.through <= after) {
    piece.through = until;
    return piece;
  }
  Query query(base::cat("SELECT ", kColumns,
                        ", (SELECT p.hash FROM audit_logs p WHERE p.id = audit_logs.id - 1) "
                        "FROM audit_logs WHERE id > "));
  query.add_value(after);
  query.add(" AND id <= ");
  query.add_value(piece.through);
  const Parts none;
  if (filter.team) {
    add_equal(query, "team", *filter.team);
  }
  if (!filter.sandbox.empty()) {
    add_equal(query, "sandbox_id", filter.sandbox);
  }
  add_times(query, filter);
  add_looked_at(query, filter, none);
  query.add(" ORDER BY id");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(query.text()));
  query.bind_to(statement);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return piece;
    }
    const AuditRow row = read_audit(statement);
    constexpr int kHashBefore = 13;
    piece.lines += wire::audit_line(row, prev_of(row, statement.get_text(kHashBefore), beginning));
    piece.lines += '\n';
  }
}

Result<std::vector<std::string>> Store::requests_in_audit(
    int64_t after, const std::vector<std::string>& request_ids) {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare("SELECT details FROM audit_logs WHERE id > $1"));
  statement.bind(after);
  std::vector<std::string> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    const std::string_view details = statement.get_text(0);
    for (const std::string& id : request_ids) {
      if (details.contains(base::cat("\"request_id\":\"", id, "\""))) {
        out.push_back(id);
      }
    }
  }
}

namespace {

using Steps = std::map<std::tuple<std::string, std::string, int64_t>, ActivityPoint>;

Result<void> add_counted(Database& database, const ActivityFilter& filter, Steps& steps) {
  Query query("SELECT team, subject, minute_ms / ");
  query.add(base::cat(filter.step_ms, " * ", filter.step_ms));
  query.add(
      " AS step, SUM(actions), SUM(failures), SUM(commands), SUM(command_ms), SUM(creates), "
      "SUM(bytes_in), SUM(bytes_out) FROM activity WHERE minute_ms >= ");
  query.add_value(filter.from_ms);
  query.add(" AND minute_ms < ");
  query.add_value(filter.until_ms);
  if (filter.team) {
    add_equal(query, "team", *filter.team);
  }
  query.add(" GROUP BY team, subject, minute_ms / ");
  query.add(base::cat(filter.step_ms, " * ", filter.step_ms));
  ASSIGN_OR_RETURN(Statement row, database.prepare(query.text()));
  query.bind_to(row);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, row.step());
    if (!more) {
      return {};
    }
    ActivityPoint point{.team = std::string(row.get_text(0)),
                        .subject = std::string(row.get_text(1)),
                        .at_ms = row.get_int(2),
                        .actions = row.get_int(3),
                        .failures = row.get_int(4),
                        .commands = row.get_int(5),
                        .command_ms = row.get_int(6),
                        .creates = row.get_int(7),
                        .bytes_in = row.get_int(8),
                        .bytes_out = row.get_int(9)};
    auto key = std::tuple(point.team, point.subject, point.at_ms);
    steps.insert_or_assign(std::move(key), std::move(point));
  }
}

// How long each owner's sandboxes were there, from the sandboxes themselves: nothing needs to count
// while they live.
Result<void> add_sandbox_time(Database& database, const ActivityFilter& filter, Steps& steps) {
  Query query(
      "SELECT team, owner, admitted_ms, deleted_ms FROM sandboxes WHERE admitted_ms > 0 "
      "AND created_ms < ");
  query.add_value(filter.until_ms);
  query.add(" AND (deleted_ms = 0 OR deleted_ms > ");
  query.add_value(filter.from_ms);
  query.add(")");
  if (filter.team) {
    add_equal(query, "team", *filter.team);
  }
  query.add(base::cat(" ORDER BY created_ms DESC, id DESC LIMIT ", kSandboxesMax));
  ASSIGN_OR_RETURN(Statement row, database.prepare(query.text()));
  query.bind_to(row);
  const int64_t first_step = filter.from_ms / filter.step_ms;
  const auto count = static_cast<size_t>(filter.until_ms / filter.step_ms - first_step + 1);
  std::map<std::pair<std::string, std::string>, std::vector<int64_t>> owners;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, row.step());
    if (!more) {
      break;
    }
    auto& times = owners[{std::string(row.get_text(0)), std::string(row.get_text(1))}];
    times.resize(count);
    const int64_t deleted_ms = row.get_int(3);
    const int64_t end = deleted_ms == 0 ? filter.until_ms : std::min(deleted_ms, filter.until_ms);
    int64_t begin = std::max(row.get_int(2), filter.from_ms);
    while (begin < end) {
      const int64_t step = begin / filter.step_ms;
      const int64_t step_end = std::min(end, (step + 1) * filter.step_ms);
      times.at(static_cast<size_t>(step - first_step)) += step_end - begin;
      begin = step_end;
    }
  }
  for (const auto& [owner, times] : owners) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t at_ms = (first_step + static_cast<int64_t>(i)) * filter.step_ms;
      if (times.at(i) > 0) {
        auto& point = steps[{owner.first, owner.second, at_ms}];
        point.team = owner.first;
        point.subject = owner.second;
        point.at_ms = at_ms;
        point.sandbox_ms = times.at(i);
      }
    }
  }
  return {};
}

}  // namespace

Result<std::vector<ActivityPoint>> Store::list_activity(const ActivityFilter& filter,
                                                        int64_t limit) {
  Steps steps;
  RETURN_IF_ERROR(add_counted(database_, filter, steps));
  RETURN_IF_ERROR(add_sandbox_time(database_, filter, steps));
  std::vector<ActivityPoint> out;
  for (auto& [key, point] : steps) {
    if (static_cast<int64_t>(out.size()) == limit) {
      break;
    }
    out.push_back(std::move(point));
  }
  return out;
}

}  // namespace store
