// The audit log of the store: rows are appended to a chain of hashes, counted, and cut off at the
// beginning when they are old. Lists are in audit_lists.cc.
#include <map>
#include <tuple>

#include "store/store.h"
#include "wire/audit_chain.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr int64_t kMinuteMs = 60'000;

struct Head {
  int64_t last_id = 0;
  std::string last_hash;
};

// The end of the chain, its row locked until the transaction ends: an UPDATE does that in SQLite
// and PostgreSQL alike.
Result<Head> lock_head(Database& database) {
  ASSIGN_OR_RETURN(Statement statement,
                   database.prepare("UPDATE audit_head SET last_id = last_id WHERE name = 'audit' "
                                    "RETURNING last_id, last_hash"));
  ASSIGN_OR_RETURN(const bool found, statement.step());
  if (!found) {
    return fail(ErrorCode::internal, "database: the audit log has no head");
  }
  Head head{.last_id = statement.get_int(0), .last_hash = std::string(statement.get_text(1))};
  RETURN_IF_ERROR(statement.run());
  return head;
}

// An event counts as a command where it starts one and lasts as long.
bool is_command(std::string_view event) {
  return event.starts_with("command.") || event == "terminal.open";
}

void add_row(ActivityPoint& point, const AuditRow& row) {
  ++point.actions;
  point.failures += row.error.empty() ? 0 : 1;
  if (is_command(row.event)) {
    ++point.commands;
    point.command_ms += std::max<int64_t>(row.duration_ms, 0);
  } else if (row.event == "session.start") {
    ++point.commands;
  } else if (row.event == "sandbox.create" && row.error.empty()) {
    ++point.creates;
  }
  point.bytes_in += row.bytes_in;
  point.bytes_out += row.bytes_out;
}

struct Minute {
  std::string_view team;
  std::string_view subject;
  int64_t minute_ms;
  auto operator<=>(const Minute&) const = default;
};

}  // namespace

Result<int64_t> Store::append_chained(std::span<const AuditRow> rows) {
  ASSIGN_OR_RETURN(Head head, lock_head(database_));
  for (const AuditRow& given : rows) {
    AuditRow row = given;
    row.id = ++head.last_id;
    head.last_hash =
        wire::audit_hash(row, head.last_hash.empty() ? wire::kAuditGenesis : head.last_hash);
    RETURN_IF_ERROR(database_.execute(
        "INSERT INTO audit_logs (id, team, sandbox_id, at_ms, event, caller, token, remote, "
        "status, error, duration_ms, details, hash) VALUES "
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        row.id, row.team, row.sandbox, row.at_ms, row.event, row.caller, row.token, row.remote,
        row.status, row.error, row.duration_ms, row.details_json, head.last_hash));
  }
  RETURN_IF_ERROR(
      database_.execute("UPDATE audit_head SET last_id = $1, last_hash = $2 WHERE name = 'audit'",
                        head.last_id, head.last_hash));
  RETURN_IF_ERROR(count_activity(rows));
  return head.last_id;
}

Result<void> Store::count_activity(std::span<const AuditRow> rows) {
  std::map<Minute, ActivityPoint> minutes;
  for (const AuditRow& row : rows) {
    if (!row.team.empty() && !row.caller.empty()) {
      add_row(minutes[{row.team, row.caller, row.at_ms / kMinuteMs * kMinuteMs}], row);
    }
  }
  for (const auto& [minute, point] : minutes) {
    RETURN_IF_ERROR(database_.execute(
        "INSERT INTO activity (team, subject, minute_ms, actions, failures, commands, command_ms, "
        "creates, bytes_in, bytes_out) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) "
        "ON CONFLICT (team, minute_ms, subject) DO UPDATE SET "
        "actions = activity.actions + excluded.actions, "
        "failures = activity.failures + excluded.failures, "
        "commands = activity.commands + excluded.commands, "
        "command_ms = activity.command_ms + excluded.command_ms, "
        "creates = activity.creates + excluded.creates, "
        "bytes_in = activity.bytes_in + excluded.bytes_in, "
        "bytes_out = activity.bytes_out + excluded.bytes_out",
        minute.team, minute.subject, minute.minute_ms, point.actions, point.failures,
        point.commands, point.command_ms, point.creates, point.bytes_in, point.bytes_out));
  }
  return {};
}

Result<void> Store::append(const AuditRow& row) {
  RETURN_IF_ERROR(append_chained(std::span(&row, 1)));
  return {};
}

Result<int64_t> Store::append_audit(const std::vector<AuditRow>& rows) {
  const auto work = [&] { return append_chained(rows); };
  return database_.transaction(work);
}

Result<model::AuditHead> Store::audit_head() {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare("SELECT last_id, last_hash FROM audit_head WHERE name = 'audit'"));
  ASSIGN_OR_RETURN(const bool found, statement.step());
  if (!found) {
    return fail(ErrorCode::internal, "database: the audit log has no head");
  }
  return model::AuditHead{.id = statement.get_int(0), .hash = std::string(statement.get_text(1))};
}

namespace {

// The last of the oldest rows that are all before that time; id 0: there is none. Rows go in the
// order of the chain, so that one with a wrong time only keeps those behind it a little longer.
Result<std::pair<model::AuditHead, int64_t>> last_to_cut(Database& database, int64_t before_ms,
                                                         int64_t limit) {
  ASSIGN_OR_RETURN(Statement statement,
                   database.prepare("SELECT id, at_ms, hash FROM audit_logs ORDER BY id LIMIT $1"));
  statement.bind(limit);
  model::AuditHead last;
  int64_t count = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more || statement.get_int(1) >= before_ms) {
      return std::pair(last, count);
    }
    last = {.id = statement.get_int(0), .hash = std::string(statement.get_text(2))};
    ++count;
  }
}

}  // namespace

Result<int64_t> Store::cut_audit(int64_t before_ms, int64_t now_ms, int64_t limit) {
  const auto work = [&]() -> Result<int64_t> {
    RETURN_IF_ERROR(
        database_.execute("DELETE FROM activity WHERE minute_ms < $1", before_ms - kMinuteMs));
    RETURN_IF_ERROR(lock_head(database_));
    ASSIGN_OR_RETURN(const auto cut, last_to_cut(database_, before_ms, limit));
    const auto& [last, count] = cut;
    if (count == 0) {
      return 0;
    }
    RETURN_IF_ERROR(database_.execute("DELETE FROM audit_logs WHERE id <= $1", last.id));
    RETURN_IF_ERROR(
        database_.execute("UPDATE audit_head SET cut_id = $1, cut_hash = $2 WHERE name = 'audit'",
                          last.id, last.hash));
    RETURN_IF_ERROR(append(AuditRow{.at_ms = now_ms,
                                    .event = std::string(wire::kAuditCutEvent),
                                    .details_json = wire::audit_cut_details(last, count)}));
    return count;
  };
  return database_.transaction(work);
}

}  // namespace store
