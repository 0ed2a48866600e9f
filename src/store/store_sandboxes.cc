// The sandboxes of the store: insert, find, change, and what is due.
#include "store/change_feed.h"
#include "store/json_text.h"
#include "store/sandbox_row.h"
#include "store/store.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;
using model::SandboxState;

// "$1, $2, ..., $count"
std::string placeholders(int count) {
  std::string out = "$1";
  for (int i = 2; i <= count; ++i) {
    out += base::cat(", $", i);
  }
  return out;
}

std::unexpected<base::Error> no_such_sandbox(std::string_view id) {
  return fail(ErrorCode::not_found, "sandbox ", id, " does not exist");
}

Result<std::vector<Sandbox>> read_all(Statement& statement) {
  std::vector<Sandbox> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    ASSIGN_OR_RETURN(Sandbox sandbox, read_sandbox(statement));
    out.push_back(std::move(sandbox));
  }
}

}  // namespace

Result<std::optional<Inserted>> Store::find_idempotent(std::string_view team,
                                                       const Idempotency& idempotency) {
  static const std::string sql =
      base::cat("SELECT ", kSandboxColumns,
                ", request_digest FROM sandboxes WHERE team = $1 AND idempotency_key = $2");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool found, statement.bind(team, idempotency.key).step());
  if (!found) {
    return std::nullopt;
  }
  if (statement.get_text(kSandboxColumnCount) != idempotency.request_digest) {
    return fail(ErrorCode::idempotency_conflict,
                "this Idempotency-Key was used with another request");
  }
  ASSIGN_OR_RETURN(Sandbox sandbox, read_sandbox(statement));
  return Inserted{.sandbox = std::move(sandbox), .fresh = false};
}

Result<void> Store::put_labels(std::string_view id, const Labels& labels) {
  for (const auto& [name, value] : labels) {
    RETURN_IF_ERROR(database_.execute(
        "INSERT INTO sandbox_labels (sandbox_id, name, value) VALUES ($1, $2, $3)", id, name,
        value));
  }
  return {};
}

Result<Inserted> Store::insert_sandbox(std::string_view team, const Sandbox& sandbox,
                                       const std::vector<Event>& events,
                                       const std::optional<Idempotency>& idempotency,
                                       const std::optional<AuditRow>& audit,
                                       const std::optional<AdmissionRules>& rules) {
  static const std::string sql = base::cat(
      "INSERT INTO sandboxes (", kSandboxColumns, ", idempotency_key, request_digest) VALUES (",
      placeholders(kSandboxColumnCount + 2),
      ") ON CONFLICT (team, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING "
      "RETURNING id");
  const auto work = [&]() -> Result<Inserted> {
    Inserted out{.sandbox = sandbox, .fresh = true};
    out.sandbox.team = team;
    if (idempotency) {
      // A key that is too old stands for nothing any more.
      RETURN_IF_ERROR(database_.execute(
          "UPDATE sandboxes SET idempotency_key = NULL WHERE team = $1 AND idempotency_key = $2 "
          "AND created_ms <= $3",
          team, idempotency->key, sandbox.created_ms - idempotency->window_ms));
    }
    std::optional<Gate> gate;
    if (rules) {
      ASSIGN_OR_RETURN(gate, gate_of(team, *rules));
      if (gate->drained) {
        return repeat_or_refuse(team, idempotency);
      }
      RETURN_IF_ERROR(prepare_entry(*gate, out.sandbox));
    }
    {
      ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
      bind_sandbox(statement, team, out.sandbox);
      if (idempotency) {
        statement.bind(idempotency->key, idempotency->request_digest);
      }
      ASSIGN_OR_RETURN(const bool inserted, statement.step());
      if (inserted) {
        RETURN_IF_ERROR(statement.run());
      } else if (idempotency) {
        ASSIGN_OR_RETURN(auto existing, find_idempotent(team, *idempotency));
        if (existing) {
          return std::move(*existing);
        }
        return fail(ErrorCode::internal, "database: a key is taken and belongs to nothing");
      }
    }
    RETURN_IF_ERROR(put_labels(sandbox.id, sandbox.labels));
    for (const Event& event : events) {
      RETURN_IF_ERROR(append(sandbox.id, event));
    }
    if (audit) {
      RETURN_IF_ERROR(append(*audit));
    }
    if (gate) {
      ASSIGN_OR_RETURN(out.admission, finish_entry(*gate, *rules, out.sandbox));
    }
    return out;
  };
  return database_.transaction(work);
}

// A team that is drained makes nothing new; what a key made before it may still ask for.
Result<Inserted> Store::repeat_or_refuse(std::string_view team,
                                         const std::optional<Idempotency>& idempotency) {
  if (idempotency) {
    ASSIGN_OR_RETURN(auto existing, find_idempotent(team, *idempotency));
    if (existing) {
      return std::move(*existing);
    }
  }
  return fail(ErrorCode::draining, "team '", team, "' is drained: it makes no sandboxes");
}

Result<Sandbox> Store::find(std::string_view team, std::string_view id) {
  static const std::string sql =
      base::cat("SELECT ", kSandboxColumns, " FROM sandboxes WHERE team = $1 AND id = $2");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  statement.bind(team, id);
  ASSIGN_OR_RETURN(auto found, read_one_sandbox(statement));
  if (!found) {
    return no_such_sandbox(id);
  }
  return std::move(*found);
}

Result<Sandbox> Store::find_sandbox(std::string_view team, std::string_view id, bool archived) {
  ASSIGN_OR_RETURN(Sandbox sandbox, find(team, id));
  if (sandbox.state == SandboxState::deleted && !archived) {
    return no_such_sandbox(id);
  }
  return sandbox;
}

Result<std::vector<Sandbox>> Store::all_live_sandboxes() {
  static const std::string sql =
      base::cat("SELECT ", kSandboxColumns,
                " FROM sandboxes WHERE state <> 'deleted' ORDER BY created_ms, id");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_all(statement);
}

Result<Changed> Store::set_state(std::string_view team, std::string_view id,
                                 const StateChange& change) {
  // What an environment holds is of no use to an archived sandbox; nor is its key.
  static const std::string sql = base::cat(
      "UPDATE sandboxes SET state = COALESCE($1, state), reason = COALESCE($2, reason), "
      "message = COALESCE($3, CASE WHEN state = 'queued' AND $1 IS NOT NULL THEN '' ELSE message "
      "END), image_digest = COALESCE($4, image_digest), "
      "node = COALESCE($5, node), admitted_ms = COALESCE($6, admitted_ms), "
      "ready_ms = COALESCE($7, ready_ms), deleted_ms = COALESCE($8, deleted_ms), "
      "last_activity_ms = COALESCE($9, last_activity_ms), "
      "start_deadline_ms = COALESCE($10, start_deadline_ms), "
      "lease_expires_ms = COALESCE($11, lease_expires_ms), "
      "max_lifetime_ms = COALESCE($12, max_lifetime_ms), queued_ms = COALESCE($13, queued_ms), "
      "pull_ms = COALESCE($14, pull_ms), start_ms = COALESCE($15, start_ms), "
      "replica = CASE WHEN state = 'starting' THEN replica ELSE COALESCE($16, replica) END, "
      "environment_sealed = CASE WHEN $1 = 'deleted' THEN '' ELSE environment_sealed END, "
      "key_sealed = CASE WHEN $1 = 'deleted' THEN '' ELSE key_sealed END, "
      "holds_quota = CASE WHEN $1 = 'deleted' THEN FALSE ELSE holds_quota END "
      "WHERE team = $17 AND id = $18 AND lease_expires_ms <= COALESCE($19, lease_expires_ms) "
      "AND state IN ($20, $21, $22, $23, $24, $25) RETURNING ",
      kSandboxColumns);
  constexpr size_t kStates = 6;
  const auto work = [&]() -> Result<Changed> {
    std::optional<Sandbox> changed;
    {
      ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
      const auto to = change.to ? std::optional(model::to_string(*change.to)) : std::nullopt;
      statement.bind(to, change.reason, change.message, change.image_digest, change.node,
                     change.admitted_ms, change.ready_ms, change.deleted_ms,
                     change.last_activity_ms, change.start_deadline_ms, change.lease_expires_ms,
                     change.max_lifetime_ms, change.queued_ms, change.pull_ms, change.start_ms,
                     change.replica, team, id, change.lease_over_ms);
      for (size_t i = 0; i < kStates; ++i) {
        if (i < change.from.size()) {
          statement.bind(model::to_string(change.from[i]));
        } else {
          statement.bind(std::nullopt);
        }
      }
      ASSIGN_OR_RETURN(changed, read_one_sandbox(statement));
    }
    if (!changed) {
      ASSIGN_OR_RETURN(Sandbox present, find(team, id));
      return Changed{.sandbox = std::move(present), .applied = false};
    }
    database_.note(notice::kSandbox, id);
    for (const Event& event : change.events) {
      RETURN_IF_ERROR(append(id, event));
    }
    return Changed{.sandbox = std::move(*changed), .applied = true};
  };
  return database_.transaction(work);
}

Result<Sandbox> Store::patch_sandbox(std::string_view team, std::string_view id,
                                     const SandboxPatch& patch) {
  static const std::string sql = base::cat(
      "UPDATE sandboxes SET labels = COALESCE($1, labels), lease_sec = COALESCE($2, lease_sec), "
      "lease_expires_ms = COALESCE($3, lease_expires_ms), network = COALESCE($4, network) "
      "WHERE team = $5 AND id = $6 AND state <> 'deleted' AND state <> 'deleting' RETURNING ",
      kSandboxColumns);
  const auto work = [&]() -> Result<Sandbox> {
    std::optional<Sandbox> patched;
    {
      ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
      const auto labels = patch.labels ? std::optional(map_text(*patch.labels)) : std::nullopt;
      const auto network =
          patch.network ? std::optional(model::to_text(*patch.network)) : std::nullopt;
      statement.bind(labels, patch.lease_sec, patch.lease_expires_ms, network, team, id);
      ASSIGN_OR_RETURN(patched, read_one_sandbox(statement));
    }
    if (!patched) {
      ASSIGN_OR_RETURN(const Sandbox present, find_sandbox(team, id));
      auto error = fail(ErrorCode::not_ready, "sandbox ", id, " is being deleted");
      return std::unexpected(
          std::move(error).error().with("state", std::string(model::to_string(present.state))));
    }
    if (patch.labels) {
      RETURN_IF_ERROR(database_.execute("DELETE FROM sandbox_labels WHERE sandbox_id = $1", id));
      RETURN_IF_ERROR(put_labels(id, *patch.labels));
    }
    database_.note(notice::kSandbox, id);
    for (const Event& event : patch.events) {
      RETURN_IF_ERROR(append(id, event));
    }
    return std::move(*patched);
  };
  return database_.transaction(work);
}

Result<void> Store::renew_leases(const std::vector<LeaseRenewal>& renewals) {
  if (renewals.empty()) {
    return {};
  }
  const auto work = [&]() -> Result<void> {
    for (const LeaseRenewal& renewal : renewals) {
      RETURN_IF_ERROR(database_.execute(
          "UPDATE sandboxes SET last_activity_ms = CASE WHEN last_activity_ms < $1 THEN $1 "
          "ELSE last_activity_ms END, lease_expires_ms = CASE WHEN lease_expires_ms < $2 THEN $2 "
          "ELSE lease_expires_ms END WHERE team = $3 AND id = $4 AND state = 'ready'",
          renewal.last_activity_ms, renewal.lease_expires_ms, renewal.team, renewal.id));
    }
    return {};
  };
  return database_.transaction(work);
}

Result<void> Store::shift_deadlines(int64_t by_ms) {
  return database_.execute(
      "UPDATE sandboxes SET "
      "queue_deadline_ms = CASE WHEN queue_deadline_ms = 0 THEN 0 ELSE queue_deadline_ms + $1 END, "
      "start_deadline_ms = CASE WHEN start_deadline_ms = 0 THEN 0 ELSE start_deadline_ms + $1 END, "
      "lease_expires_ms = CASE WHEN lease_expires_ms = 0 THEN 0 ELSE lease_expires_ms + $1 END, "
      "max_lifetime_ms = CASE WHEN max_lifetime_ms = 0 THEN 0 ELSE max_lifetime_ms + $1 END "
      "WHERE state <> 'deleted'",
      by_ms);
}

Result<std::vector<Sandbox>> Store::due_sandboxes(int64_t now_ms) {
  // A failed sandbox keeps the lease it had: nobody who comes back to it means nobody wants it.
  static const std::string sql =
      base::cat("SELECT ", kSandboxColumns,
                " FROM sandboxes WHERE state <> 'deleted' AND state <> 'deleting' AND ("
                "(state = 'queued' AND queue_deadline_ms BETWEEN 1 AND $1) OR "
                "(state = 'starting' AND start_deadline_ms BETWEEN 1 AND $1) OR "
                "(state IN ('ready', 'failed') AND lease_expires_ms BETWEEN 1 AND $1) OR "
                "max_lifetime_ms BETWEEN 1 AND $1) ORDER BY created_ms, id");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_all(statement.bind(now_ms));
}

Result<int64_t> Store::forget_deleted_before(int64_t deleted_ms, int64_t limit) {
  RETURN_IF_ERROR(database_.execute(
      "DELETE FROM sandboxes WHERE id IN (SELECT id FROM sandboxes WHERE created_ms < $1 AND "
      "state = 'deleted' AND deleted_ms < $1 ORDER BY created_ms, id LIMIT $2)",
      deleted_ms, limit));
  return database_.changes();
}

}  // namespace store
