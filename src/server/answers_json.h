// Rows as the API shows them. Pure.
#pragma once

#include <string>

#include "service/images.h"
#include "service/sandboxes.h"
#include "wire/json.h"

namespace server {

// `admission` tells its place in the queue and what of it is borrowed.
// One container of several; `status`: what its agent says, if it does.
wire::json::Object container_json(const store::Container& container, model::SandboxState state,
                                  const std::optional<service::ServiceStatus>& status);
using ContainerStates = std::vector<std::optional<service::ServiceStatus>>;
// `containers`: as they are now, where that was asked for.
wire::json::Object sandbox_json(const service::SandboxRow& row, const service::Admission& admission,
                                const ContainerStates& containers = {});
wire::json::Object quotas_json(const service::Admission::Overview& overview);
wire::json::Object event_json(const service::SandboxEvent& event);
wire::json::Object audit_json(const service::AuditRow& row);
wire::json::Object image_json(const service::ImageInfo& image);
wire::json::Object pull_json(const std::string& id, const service::PullProgress& progress);
wire::json::Object registry_json(const service::RegistryView& registry);
// {"items":[...],"next_cursor":null}
std::string list_body(wire::json::Array items, const std::string& next_cursor);
// RFC 3339, or null for 0.
wire::json::Value time_json(int64_t ms);

}  // namespace server
