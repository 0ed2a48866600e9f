#include "server/v1_json.h"

#include <algorithm>

#include "server/answers_json.h"

namespace server {
namespace {

using model::SandboxState;
using wire::json::Object;
using wire::json::Value;

// Tokens name a subject, which need not be an address. Those clients show `email` as who it is, so
// another subject becomes an address of the domain that never exists (RFC 2606).
std::string email_of(const service::SandboxRow& row) {
  return row.owner.contains('@') ? row.owner : base::cat(row.owner, "@", row.team, ".invalid");
}

}  // namespace

Object v1_sandbox_json(const service::SandboxRow& row) {
  const bool is_archived =
      row.state == SandboxState::deleting || row.state == SandboxState::deleted;
  const int64_t updated_ms =
      std::max({row.created_ms, row.admitted_ms, row.ready_ms, row.deleted_ms});
  return Object{{"id", row.id},
                {"tenantId", row.team},
                {"lastActivityAt", time_json(std::max(row.last_activity_ms, row.created_ms))},
                {"isArchived", is_archived},
                {"createdAt", time_json(row.created_ms)},
                {"updatedAt", time_json(updated_ms)},
                {"user", Object{{"id", row.owner}, {"email", email_of(row)}, {"name", row.owner}}}};
}

Object v1_audit_json(const service::AuditRow& row) {
  auto parsed = wire::json::parse_object(row.details_json);
  Object details = parsed ? std::move(*parsed) : Object{};
  details["caller"] = row.caller;
  details["remote"] = row.remote;
  return Object{{"id", row.id},
                {"tenantId", row.team},
                {"sandboxId", row.sandbox},
                {"eventName", row.event},
                {"details", std::move(details)},
                {"createdAt", time_json(row.at_ms)}};
}

bool is_v1_path(std::string_view path) {
  if (path == "/api/v1" || path.starts_with("/api/v1/")) {
    return true;
  }
  // The routes that are served without the prefix too.
  return path.starts_with("/sandboxes/") &&
         (path.ends_with("/read-file") || path.ends_with("/write-file") ||
          path.contains("/audit-logs/"));
}

std::string v1_error_body(const Error& error, std::string_view request_id) {
  const std::string body = wire::json::error_body(error, request_id);
  // {"error":{...}} becomes {"message":"...","error":{...}}.
  return base::cat("{\"message\":", wire::json::serialize(Value(error.message)), ",",
                   std::string_view(body).substr(1));
}

}  // namespace server
