#include "store/sandbox_row.h"

#include "store/json_text.h"
#include "wire/json.h"

namespace store {
namespace {

std::optional<std::string> optional_text(const Statement& row, int column) {
  if (row.is_null(column)) {
    return std::nullopt;
  }
  return std::string(row.get_text(column));
}

// [["name","image"],...]; "" for none.
std::string containers_text(const std::vector<Container>& containers) {
  if (containers.empty()) {
    return "";
  }
  wire::json::Array out;
  for (const Container& container : containers) {
    out.push_back(wire::json::Array{container.name, container.image});
  }
  return wire::json::serialize(out);
}

Result<std::vector<Container>> parse_containers(std::string_view text) {
  std::vector<Container> out;
  if (text.empty()) {
    return out;
  }
  ASSIGN_OR_RETURN(const auto value, wire::json::parse(text));
  const bool is_list = value.is_array();
  for (const wire::json::Value& pair : is_list ? value.get_array() : wire::json::Array{}) {
    if (!pair.is_array() || pair.get_array().size() != 2 || !pair.at(0).is_string() ||
        !pair.at(1).is_string()) {
      return base::fail(base::ErrorCode::internal, "database: broken containers");
    }
    out.push_back({.name = std::string(pair.at(0).get_string()),
                   .image = std::string(pair.at(1).get_string())});
  }
  return out;
}

}  // namespace

Result<Sandbox> read_sandbox(const Statement& row) {
  const auto state = model::parse_sandbox_state(row.get_text(3));
  const auto network = model::parse_network_policy(row.get_text(16));
  if (!state || !network) {
    return base::fail(base::ErrorCode::internal, "database: sandbox ", row.get_text(0),
                      " has an unknown state or network policy");
  }
  ASSIGN_OR_RETURN(Labels labels, parse_map(row.get_text(11)));
  ASSIGN_OR_RETURN(std::string environment, unseal_text(row.get_text(12)));
  ASSIGN_OR_RETURN(auto containers, parse_containers(row.get_text(39)));
  ASSIGN_OR_RETURN(std::string key, unseal_text(row.get_text(41)));
  return Sandbox{.id = std::string(row.get_text(0)),
                 .team = std::string(row.get_text(1)),
                 .owner = std::string(row.get_text(2)),
                 .state = *state,
                 .reason = std::string(row.get_text(4)),
                 .message = std::string(row.get_text(5)),
                 .image = std::string(row.get_text(6)),
                 .resources = {.millicpus = row.get_int(7),
                               .memory_mb = row.get_int(8),
                               .storage_mb = row.get_int(9),
                               .pids = row.get_int(10)},
                 .labels = std::move(labels),
                 .containers = std::move(containers),
                 .environment_sealed = std::move(environment),
                 .public_key = std::string(row.get_text(40)),
                 .key_sealed = std::move(key),
                 .user = optional_text(row, 13),
                 .workdir = optional_text(row, 14),
                 .isolation = std::string(row.get_text(15)),
                 .network = *network,
                 .no_new_privileges = row.get_bool(17),
                 .run_entrypoint = row.get_bool(18),
                 .always_pull = row.get_bool(19),
                 .lease_sec = row.get_int(20),
                 .max_lifetime_sec = row.get_int(21),
                 .image_digest = std::string(row.get_text(22)),
                 .node = std::string(row.get_text(23)),
                 .created_ms = row.get_int(24),
                 .admitted_ms = row.get_int(25),
                 .ready_ms = row.get_int(26),
                 .deleted_ms = row.get_int(27),
                 .last_activity_ms = row.get_int(28),
                 .queue_deadline_ms = row.get_int(29),
                 .start_deadline_ms = row.get_int(30),
                 .lease_expires_ms = row.get_int(31),
                 .max_lifetime_ms = row.get_int(32),
                 .queued_ms = row.get_int(33),
                 .pull_ms = row.get_int(34),
                 .start_ms = row.get_int(35),
                 .holds_quota = row.get_bool(36),
                 .ticket = row.get_int(37),
                 .replica = std::string(row.get_text(38))};
}

Result<std::optional<Sandbox>> read_one_sandbox(Statement& statement) {
  ASSIGN_OR_RETURN(const bool found, statement.step());
  if (!found) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(Sandbox sandbox, read_sandbox(statement));
  RETURN_IF_ERROR(statement.run());
  return sandbox;
}

void bind_sandbox(Statement& statement, std::string_view team, const Sandbox& sandbox) {
  statement.bind(
      sandbox.id, team, sandbox.owner, model::to_string(sandbox.state), sandbox.reason,
      sandbox.message, sandbox.image, sandbox.resources.millicpus, sandbox.resources.memory_mb,
      sandbox.resources.storage_mb, sandbox.resources.pids, map_text(sandbox.labels),
      seal_text(sandbox.environment_sealed), sandbox.user, sandbox.workdir, sandbox.isolation,
      model::to_text(sandbox.network), sandbox.no_new_privileges, sandbox.run_entrypoint,
      sandbox.always_pull, sandbox.lease_sec, sandbox.max_lifetime_sec, sandbox.image_digest,
      sandbox.node, sandbox.created_ms, sandbox.admitted_ms, sandbox.ready_ms, sandbox.deleted_ms,
      sandbox.last_activity_ms, sandbox.queue_deadline_ms, sandbox.start_deadline_ms,
      sandbox.lease_expires_ms, sandbox.max_lifetime_ms, sandbox.queued_ms, sandbox.pull_ms,
      sandbox.start_ms, sandbox.holds_quota, sandbox.ticket, sandbox.replica,
      containers_text(sandbox.containers), sandbox.public_key, seal_text(sandbox.key_sealed));
}

}  // namespace store
