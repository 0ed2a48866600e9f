// Admission in the store: who holds quota, who is queued, and the decision in the transaction that
// changes it. What is used is summed up from the rows themselves.
#include <algorithm>

#include "model/admission.h"
#include "store/change_feed.h"
#include "store/sandbox_row.h"
#include "store/store.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr int64_t kMsPerSecond = 1000;
// Of one team's queue so many are looked at together; more where all of these are dealt with.
constexpr int64_t kQueuedRead = 64;
constexpr int64_t kQueuedReadGrowth = 8;
constexpr std::string_view kPreempted = "preempted";

model::Limits limits_of(const Statement& row, int first) {
  model::Limits out;
  for (size_t i = 0; i < model::kDimensions; ++i) {
    const int column = first + static_cast<int>(i);
    if (!row.is_null(column)) {
      out[i] = row.get_int(column);
    }
  }
  return out;
}

model::Amounts amounts_of(const Statement& row, int first) {
  return {row.get_int(first), row.get_int(first + 1), row.get_int(first + 2),
          row.get_int(first + 3)};
}

model::TeamQuota read_quota(const Statement& row) {
  return {.name = std::string(row.get_text(0)),
          .nominal = limits_of(row, 1),
          .borrowing = limits_of(row, 5),
          .lending = limits_of(row, 9),
          .reclaim = row.get_bool(13)};
}

Result<model::Usage> read_usage(Statement& statement) {
  model::Usage out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    out.emplace(std::string(statement.get_text(0)), amounts_of(statement, 1));
  }
}

// Whether all that was read of some team's queue is admitted or was passed over, so that what comes
// behind it may be admitted too.
bool ended_a_line(const std::vector<model::QueuedRequest>& queue,
                  const model::AdmissionDecision& decision, int64_t read_most) {
  std::map<std::string_view, int64_t> dealt_with;
  for (const model::QueuedRequest& request : queue) {
    const bool admitted =
        std::ranges::find(decision.admitted, request.id) != decision.admitted.end();
    if (admitted || decision.reasons.contains(request.id)) {
      ++dealt_with[request.team];
    }
  }
  return std::ranges::any_of(dealt_with,
                             [&](const auto& entry) { return entry.second >= read_most; });
}

bool has_limit(const model::Limits& limits) {
  return std::ranges::any_of(limits, [](const auto& limit) { return limit.has_value(); });
}

void become_admitted(Sandbox& sandbox, int64_t now_ms, int64_t start_max_sec) {
  sandbox.state = model::SandboxState::starting;
  sandbox.holds_quota = true;
  sandbox.admitted_ms = now_ms;
  sandbox.queued_ms = std::max<int64_t>(0, now_ms - sandbox.created_ms);
  sandbox.last_activity_ms = now_ms;
  sandbox.start_deadline_ms = now_ms + start_max_sec * kMsPerSecond;
  sandbox.max_lifetime_ms = now_ms + sandbox.max_lifetime_sec * kMsPerSecond;
}

}  // namespace

Result<std::vector<model::TeamQuota>> Store::read_quotas() {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare(
          "SELECT name, quota_millicpus, quota_memory_mb, quota_storage_mb, quota_sandboxes, "
          "borrow_millicpus, borrow_memory_mb, borrow_storage_mb, borrow_sandboxes, "
          "lend_millicpus, lend_memory_mb, lend_storage_mb, lend_sandboxes, reclaim "
          "FROM teams ORDER BY name"));
  std::vector<model::TeamQuota> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    out.push_back(read_quota(statement));
  }
}

Result<model::Usage> Store::read_used() {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare("SELECT team, CAST(SUM(millicpus) AS BIGINT), CAST(SUM(memory_mb) AS "
                        "BIGINT), CAST(SUM(storage_mb) AS BIGINT), COUNT(*) FROM sandboxes "
                        "WHERE holds_quota GROUP BY team"));
  return read_usage(statement);
}

// What will be free once the engine has removed it.
Result<model::Usage> Store::read_ending() {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare("SELECT team, CAST(SUM(millicpus) AS BIGINT), CAST(SUM(memory_mb) AS "
                        "BIGINT), CAST(SUM(storage_mb) AS BIGINT), COUNT(*) FROM sandboxes "
                        "WHERE holds_quota AND state IN ('failed', 'deleting') GROUP BY team"));
  return read_usage(statement);
}

Result<std::vector<model::HeldSandbox>> Store::read_held() {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare("SELECT id, team, admitted_ms, last_activity_ms, millicpus, memory_mb, "
                        "storage_mb, 1, state FROM sandboxes WHERE holds_quota"));
  std::vector<model::HeldSandbox> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    const std::string_view state = statement.get_text(8);
    out.push_back({.id = std::string(statement.get_text(0)),
                   .team = std::string(statement.get_text(1)),
                   .admitted_ms = statement.get_int(2),
                   .last_used_ms = statement.get_int(3),
                   .holds = amounts_of(statement, 4),
                   .ending = state == "failed" || state == "deleting"});
  }
}

// The oldest of each team's queue, of each at most `most`.
Result<Store::Queue> Store::read_queue(int64_t most) {
  std::vector<std::string> teams;
  {
    ASSIGN_OR_RETURN(
        Statement statement,
        database_.prepare("SELECT DISTINCT team FROM sandboxes WHERE state = 'queued'"));
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, statement.step());
      if (!more) {
        break;
      }
      teams.emplace_back(statement.get_text(0));
    }
  }
  Queue out;
  for (const std::string& team : teams) {
    ASSIGN_OR_RETURN(
        Statement statement,
        database_.prepare("SELECT id, ticket, created_ms, millicpus, memory_mb, storage_mb, 1, "
                          "message FROM sandboxes WHERE team = $1 AND state = 'queued' "
                          "ORDER BY ticket LIMIT $2"));
    statement.bind(team, most);
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, statement.step());
      if (!more) {
        break;
      }
      out.requests.push_back({.id = std::string(statement.get_text(0)),
                              .team = team,
                              .ticket = statement.get_int(1),
                              .queued_ms = statement.get_int(2),
                              .wants = amounts_of(statement, 3)});
      out.told.emplace(out.requests.back().id, statement.get_text(7));
    }
  }
  return out;
}

Result<int64_t> Store::take_turn() {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare("UPDATE admission SET turn = turn + 1 WHERE id = 1 RETURNING turn"));
  ASSIGN_OR_RETURN(const bool found, statement.step());
  if (!found) {
    return fail(ErrorCode::internal, "database: the admission's row is missing");
  }
  const int64_t turn = statement.get_int(0);
  RETURN_IF_ERROR(statement.run());
  return turn;
}

Result<Sandbox> Store::admit(const std::string& id, const std::string& replica, int64_t now_ms) {
  static const std::string sql = base::cat(
      "UPDATE sandboxes SET state = 'starting', message = '', holds_quota = TRUE, admitted_ms = "
      "$1, "
      "last_activity_ms = $1, queued_ms = CASE WHEN created_ms < $1 THEN $1 - created_ms ELSE 0 "
      "END, max_lifetime_ms = $1 + max_lifetime_sec * 1000, start_deadline_ms = $1 + (SELECT "
      "start_max_sec FROM teams WHERE teams.name = sandboxes.team) * 1000, "
      "replica = $2 WHERE id = $3 AND state = 'queued' RETURNING ",
      kSandboxColumns);
  std::optional<Sandbox> admitted;
  {
    ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
    ASSIGN_OR_RETURN(admitted, read_one_sandbox(statement.bind(now_ms, replica, id)));
  }
  if (!admitted) {
    return fail(ErrorCode::internal, "database: sandbox ", id, " is not queued any more");
  }
  RETURN_IF_ERROR(append(id, Event{.at_ms = now_ms, .type = "admitted"}));
  return std::move(*admitted);
}

// It keeps its quota until the engine has removed it.
Result<Sandbox> Store::preempt(const std::string& id, const std::string& by_team,
                               const std::string& replica, int64_t now_ms) {
  static const std::string sql = base::cat(
      "UPDATE sandboxes SET state = 'failed', reason = $1, message = $2, replica = CASE WHEN state "
      "= "
      "'starting' THEN replica ELSE $3 END WHERE id = $4 AND state IN ('starting', 'ready') "
      "RETURNING ",
      kSandboxColumns);
  const std::string message =
      base::cat("what it had borrowed is reclaimed by its owner, team '", by_team, "'");
  std::optional<Sandbox> ended;
  {
    ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
    ASSIGN_OR_RETURN(ended, read_one_sandbox(statement.bind(kPreempted, message, replica, id)));
  }
  if (!ended) {
    return fail(ErrorCode::internal, "database: sandbox ", id, " does not run any more");
  }
  RETURN_IF_ERROR(append(id, Event{.at_ms = now_ms,
                                   .type = "failed",
                                   .reason = std::string(kPreempted),
                                   .message = message}));
  return std::move(*ended);
}

// So that whichever gateway is asked gives the same answer. Few of a queue have a reason of their
// own, and most of them keep it.
Result<void> Store::tell_reasons(const Queue& queue, const model::AdmissionDecision& decision) {
  for (const auto& [id, reason] : decision.reasons) {
    const auto told = queue.told.find(id);
    if (told == queue.told.end() || told->second == reason) {
      continue;
    }
    RETURN_IF_ERROR(database_.execute(
        "UPDATE sandboxes SET message = $1 WHERE id = $2 AND state = 'queued'", reason, id));
    database_.note(notice::kSandbox, id);
  }
  return {};
}

// In a transaction whose turn was taken.
Result<Admission> Store::decide(const AdmissionRules& rules, int64_t now_ms) {
  Admission out;
  ASSIGN_OR_RETURN(const auto quotas, read_quotas());
  const bool any_reclaims = std::ranges::any_of(quotas, &model::TeamQuota::reclaim);
  for (int64_t most = kQueuedRead;; most *= kQueuedReadGrowth) {
    model::AdmissionState state{.teams = quotas, .total = rules.total, .now_ms = now_ms};
    ASSIGN_OR_RETURN(Queue queue, read_queue(most));
    if (queue.requests.empty()) {
      return out;
    }
    state.queue = std::move(queue.requests);
    ASSIGN_OR_RETURN(state.used, read_used());
    if (any_reclaims) {
      ASSIGN_OR_RETURN(state.ending, read_ending());
    }
    model::AdmissionDecision decision = model::decide_admission(state);
    if (decision.wants_held) {
      ASSIGN_OR_RETURN(state.held, read_held());
      decision = model::decide_admission(state);
    }
    for (const std::string& id : decision.admitted) {
      ASSIGN_OR_RETURN(Sandbox admitted, admit(id, rules.replica, now_ms));
      out.admitted.push_back(std::move(admitted));
    }
    for (const auto& [id, by_team] : decision.reclaimed) {
      ASSIGN_OR_RETURN(Sandbox ended, preempt(id, by_team, rules.replica, now_ms));
      out.reclaimed.push_back(std::move(ended));
    }
    RETURN_IF_ERROR(tell_reasons(queue, decision));
    const bool again = ended_a_line(state.queue, decision, most);
    out.reasons = std::move(decision.reasons);
    if (!again) {
      return out;
    }
  }
}

Result<Admission> Store::admit_queued(const AdmissionRules& rules, int64_t now_ms) {
  const auto work = [&]() -> Result<Admission> {
    RETURN_IF_ERROR(take_turn());
    return decide(rules, now_ms);
  };
  return database_.transaction(work);
}

Result<Store::Gate> Store::gate_of(std::string_view team, const AdmissionRules& rules) {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare(
          "SELECT CASE WHEN COALESCE(quota_millicpus, quota_memory_mb, quota_storage_mb, "
          "quota_sandboxes) IS NULL THEN 0 ELSE 1 END, "
          "start_max_sec, queue_max_sec, CASE WHEN EXISTS (SELECT 1 FROM drained_teams d WHERE "
          "d.team = teams.name) THEN 1 ELSE 0 END, CASE WHEN EXISTS (SELECT 1 FROM sandboxes s "
          "WHERE s.team = teams.name AND s.state = 'queued') THEN 1 ELSE 0 END FROM teams "
          "WHERE name = $1"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(team).step());
  if (!found) {
    return fail(ErrorCode::not_found, "team '", team, "' does not exist");
  }
  return Gate{.limited = statement.get_int(0) != 0 || has_limit(rules.total),
              .drained = statement.get_int(3) != 0,
              .queue = statement.get_int(4) != 0,
              .start_max_sec = statement.get_int(1),
              .queue_max_sec = statement.get_int(2)};
}

// What a new row is to be: admitted at once where nothing limits it, else queued.
Result<void> Store::prepare_entry(const Gate& gate, Sandbox& sandbox) {
  if (!gate.limited && !gate.queue) {
    become_admitted(sandbox, sandbox.created_ms, gate.start_max_sec);
    return {};
  }
  sandbox.state = model::SandboxState::queued;
  sandbox.queue_deadline_ms = sandbox.created_ms + gate.queue_max_sec * kMsPerSecond;
  ASSIGN_OR_RETURN(sandbox.ticket, take_turn());
  return {};
}

// Behind its insert: its event, and the decision where it is the first of its team's queue.
Result<Admission> Store::finish_entry(const Gate& gate, const AdmissionRules& rules,
                                      Sandbox& sandbox) {
  const int64_t now_ms = sandbox.created_ms;
  if (sandbox.state == model::SandboxState::starting) {
    RETURN_IF_ERROR(append(sandbox.id, Event{.at_ms = now_ms, .type = "admitted"}));
    return Admission{};
  }
  Admission out;
  if (!gate.queue) {
    ASSIGN_OR_RETURN(out, decide(rules, now_ms));
    const auto own = std::ranges::find(out.admitted, sandbox.id, &Sandbox::id);
    if (own != out.admitted.end()) {
      sandbox = std::move(*own);
      out.admitted.erase(own);
      return out;
    }
  }
  const auto reason = out.reasons.find(sandbox.id);
  sandbox.message = reason == out.reasons.end() ? "" : reason->second;
  RETURN_IF_ERROR(append(
      sandbox.id, Event{.at_ms = now_ms,
                        .type = "queued",
                        .message = reason == out.reasons.end() ? "others of the team come before it"
                                                               : reason->second}));
  return out;
}

Result<std::optional<int64_t>> Store::server_time_ms() {
  const std::string_view sql = database_.connection().time_sql();
  if (sql.empty()) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool told, statement.step());
  if (!told) {
    return fail(ErrorCode::internal, "database: the server tells no time");
  }
  return statement.get_int(0);
}

Result<bool> Store::release_quota(std::string_view team, std::string_view id) {
  const auto work = [&]() -> Result<bool> {
    RETURN_IF_ERROR(database_.execute(
        "UPDATE sandboxes SET holds_quota = FALSE WHERE team = $1 AND id = $2 AND state = 'failed' "
        "AND holds_quota",
        team, id));
    database_.note(notice::kSandbox, id);
    return database_.changes() > 0;
  };
  return database_.transaction(work);
}

Result<Quotas> Store::quotas() {
  const auto work = [&]() -> Result<Quotas> {
    Quotas out;
    ASSIGN_OR_RETURN(out.teams, read_quotas());
    ASSIGN_OR_RETURN(out.used, read_used());
    ASSIGN_OR_RETURN(out.drained, drained_teams());
    ASSIGN_OR_RETURN(
        Statement statement,
        database_.prepare("SELECT team, COUNT(*) FROM sandboxes WHERE state = 'queued' GROUP BY "
                          "team"));
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, statement.step());
      if (!more) {
        return out;
      }
      out.queued.emplace(std::string(statement.get_text(0)), statement.get_int(1));
    }
  };
  return database_.transaction(work);
}

Result<bool> Store::set_drained(std::string_view team, bool drained, int64_t now_ms) {
  const auto work = [&]() -> Result<bool> {
    RETURN_IF_ERROR(find_team(team));
    if (drained) {
      RETURN_IF_ERROR(database_.execute(
          "INSERT INTO drained_teams (team, since_ms) VALUES ($1, $2) ON CONFLICT (team) DO "
          "NOTHING",
          team, now_ms));
    } else {
      RETURN_IF_ERROR(database_.execute("DELETE FROM drained_teams WHERE team = $1", team));
    }
    return database_.changes() > 0;
  };
  return database_.transaction(work);
}

Result<std::set<std::string>> Store::drained_teams() {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare("SELECT team FROM drained_teams ORDER BY team"));
  std::set<std::string> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    out.emplace(statement.get_text(0));
  }
}

}  // namespace store
