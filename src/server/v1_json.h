// What /api/v1 shows and how it fails. Its shapes are those of its published clients, which take
// every field as present. Pure.
#pragma once

#include <string>
#include <string_view>

#include "server/exchange.h"
#include "service/sandboxes.h"
#include "wire/json.h"

namespace server {

wire::json::Object v1_sandbox_json(const service::SandboxRow& row);
wire::json::Object v1_audit_json(const service::AuditRow& row);

// Whether a path's errors have this API's form: {"message": "..."} with our {"error": {...}}
// beside it.
bool is_v1_path(std::string_view path);
std::string v1_error_body(const Error& error, std::string_view request_id);

}  // namespace server
