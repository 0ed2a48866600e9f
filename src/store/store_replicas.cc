// What gateways on one store have to tell each other: who they are, who works at which sandbox,
// tickets that one gives and another takes, and facts that all must agree on.
#include "store/change_feed.h"
#include "store/read_rows.h"
#include "store/sandbox_row.h"
#include "store/store.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kReplicaColumns =
    "id, address, version, started_ms, heartbeat_ms, draining, connections";
// Of so many ids one statement finds the rows; fewer leave places empty, so that it has one text.
constexpr size_t kFoundTogether = 32;

Result<Replica> read_replica(const Statement& row) {
  return Replica{.id = std::string(row.get_text(0)),
                 .address = std::string(row.get_text(1)),
                 .version = std::string(row.get_text(2)),
                 .started_ms = row.get_int(3),
                 .heartbeat_ms = row.get_int(4),
                 .draining = row.get_bool(5),
                 .connections = row.get_int(6)};
}

std::string find_sql() {
  std::string places = "$1";
  for (size_t i = 2; i <= kFoundTogether; ++i) {
    places += base::cat(", $", i);
  }
  return base::cat("SELECT ", kSandboxColumns, " FROM sandboxes WHERE id IN (", places, ")");
}

}  // namespace

Result<void> Store::put_replica(const Replica& replica) {
  const auto work = [&]() -> Result<void> {
    database_.note(notice::kReplicas);
    return database_.execute(
        "INSERT INTO replicas (id, address, version, started_ms, heartbeat_ms, draining, "
        "connections) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET "
        "address = excluded.address, version = excluded.version, "
        "started_ms = excluded.started_ms, heartbeat_ms = excluded.heartbeat_ms, "
        "draining = excluded.draining, connections = excluded.connections",
        replica.id, replica.address, replica.version, replica.started_ms, replica.heartbeat_ms,
        replica.draining, replica.connections);
  };
  return database_.transaction(work);
}

Result<std::vector<Replica>> Store::beat(const Replica& own, int64_t stale_ms) {
  RETURN_IF_ERROR(
      database_.execute("UPDATE replicas SET heartbeat_ms = $1, connections = $2 WHERE id = $3",
                        own.heartbeat_ms, own.connections, own.id));
  if (database_.changes() == 0) {
    RETURN_IF_ERROR(put_replica(own));
  }
  ASSIGN_OR_RETURN(auto all, list_replicas());
  if (std::erase_if(all, [stale_ms](const Replica& one) { return one.heartbeat_ms < stale_ms; }) >
      0) {
    RETURN_IF_ERROR(database_.execute("DELETE FROM replicas WHERE heartbeat_ms < $1", stale_ms));
  }
  return all;
}

Result<void> Store::remove_replica(std::string_view id) {
  const auto work = [&]() -> Result<void> {
    database_.note(notice::kReplicas);
    return database_.execute("DELETE FROM replicas WHERE id = $1", id);
  };
  return database_.transaction(work);
}

Result<std::vector<Replica>> Store::list_replicas() {
  static const std::string sql =
      base::cat("SELECT ", kReplicaColumns, " FROM replicas ORDER BY started_ms, id");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<Replica>(statement, read_replica);
}

Result<std::vector<Sandbox>> Store::take_over(std::string_view from, std::string_view to) {
  static const std::string sql = base::cat(
      "UPDATE sandboxes SET replica = $1 WHERE replica = $2 AND (state = 'starting' OR "
      "state = 'deleting' OR (state = 'failed' AND holds_quota)) RETURNING ",
      kSandboxColumns);
  const auto work = [&]() -> Result<std::vector<Sandbox>> {
    ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
    ASSIGN_OR_RETURN(auto taken, read_rows<Sandbox>(statement.bind(to, from), read_sandbox));
    for (const Sandbox& sandbox : taken) {
      database_.note(notice::kSandbox, sandbox.id);
    }
    return taken;
  };
  return database_.transaction(work);
}

Result<std::vector<Sandbox>> Store::find_sandboxes(std::span<const std::string> ids) {
  static const std::string sql = find_sql();
  std::vector<Sandbox> out;
  for (size_t first = 0; first < ids.size(); first += kFoundTogether) {
    ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
    for (size_t i = first; i < first + kFoundTogether; ++i) {
      if (i < ids.size()) {
        statement.bind(ids[i]);
      } else {
        statement.bind(std::nullopt);
      }
    }
    ASSIGN_OR_RETURN(auto rows, read_rows<Sandbox>(statement, read_sandbox));
    std::ranges::move(rows, std::back_inserter(out));
  }
  return out;
}

Result<void> Store::put_ticket(const Ticket& ticket, int64_t now_ms, int64_t most) {
  const auto work = [&]() -> Result<void> {
    RETURN_IF_ERROR(database_.execute("DELETE FROM tickets WHERE expires_ms <= $1", now_ms));
    {
      ASSIGN_OR_RETURN(Statement statement, database_.prepare("SELECT COUNT(*) FROM tickets"));
      ASSIGN_OR_RETURN(const bool counted, statement.step());
      if (counted && statement.get_int(0) >= most) {
        return fail(ErrorCode::overloaded, "more than ", most, " tickets in a minute");
      }
    }
    return database_.execute("INSERT INTO tickets (hash, caller, expires_ms) VALUES ($1, $2, $3)",
                             ticket.hash, ticket.caller, ticket.expires_ms);
  };
  return database_.transaction(work);
}

Result<std::optional<Ticket>> Store::take_ticket(std::string_view hash) {
  {
    // What is not there needs no writer's turn.
    ASSIGN_OR_RETURN(Statement statement,
                     database_.prepare("SELECT hash FROM tickets WHERE hash = $1"));
    ASSIGN_OR_RETURN(const bool found, statement.bind(hash).step());
    if (!found) {
      return std::nullopt;
    }
  }
  const auto work = [&]() -> Result<std::optional<Ticket>> {
    ASSIGN_OR_RETURN(
        Statement statement,
        database_.prepare("DELETE FROM tickets WHERE hash = $1 RETURNING caller, expires_ms"));
    ASSIGN_OR_RETURN(const bool found, statement.bind(hash).step());
    if (!found) {
      return std::nullopt;
    }
    Ticket ticket{.hash = std::string(hash),
                  .caller = std::string(statement.get_text(0)),
                  .expires_ms = statement.get_int(1)};
    RETURN_IF_ERROR(statement.run());
    return ticket;
  };
  return database_.transaction(work);
}

Result<std::optional<std::string>> Store::find_fact(std::string_view name) {
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare("SELECT value FROM store_facts WHERE name = $1"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(name).step());
  return found ? std::optional(std::string(statement.get_text(0))) : std::nullopt;
}

Result<void> Store::put_fact(std::string_view name, std::string_view value) {
  return database_.execute(
      "INSERT INTO store_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name,
      value);
}

Result<void> Store::set_fact(std::string_view name, std::string_view value) {
  return database_.execute(
      "INSERT INTO store_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET "
      "value = excluded.value",
      name, value);
}

Result<bool> Store::change_fact(std::string_view name, std::string_view from, std::string_view to,
                                const std::optional<AuditRow>& audit) {
  const auto work = [&]() -> Result<bool> {
    RETURN_IF_ERROR(database_.execute(
        "UPDATE store_facts SET value = $1 WHERE name = $2 AND value = $3", to, name, from));
    const bool changed = database_.changes() > 0;
    if (changed && audit) {
      RETURN_IF_ERROR(append(*audit));
    }
    return changed;
  };
  return database_.transaction(work);
}

Result<void> Store::forget_fact(std::string_view name) {
  return database_.execute("DELETE FROM store_facts WHERE name = $1", name);
}

}  // namespace store
