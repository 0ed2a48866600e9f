// A sandbox's row: its columns in one order for SELECT, INSERT and RETURNING.
#pragma once

#include <string_view>

#include "store/database.h"
#include "store/rows.h"

namespace store {

inline constexpr std::string_view kSandboxColumns =
    "id, team, owner, state, reason, message, image, millicpus, memory_mb, storage_mb, pids, "
    "labels, environment_sealed, user_name, workdir, isolation, network, no_new_privileges, "
    "run_entrypoint, always_pull, lease_sec, max_lifetime_sec, image_digest, node, created_ms, "
    "admitted_ms, ready_ms, deleted_ms, last_activity_ms, queue_deadline_ms, start_deadline_ms, "
    "lease_expires_ms, max_lifetime_ms, queued_ms, pull_ms, start_ms, holds_quota, ticket, "
    "replica, containers, public_key, key_sealed";
inline constexpr int kSandboxColumnCount = 42;

Result<Sandbox> read_sandbox(const Statement& row);
// The row of a statement that gives one or none; the statement has run to its end afterwards.
Result<std::optional<Sandbox>> read_one_sandbox(Statement& statement);
// All columns in that order, with `team` for the team.
void bind_sandbox(Statement& statement, std::string_view team, const Sandbox& sandbox);

}  // namespace store
