// The JSON of the node protocol: requests to values (checked again, whoever sent them) and values
// to answers. Pure. What is wrong is invalid_field, missing_field, unknown_field or not_supported.
#pragma once

#include <string>

#include "base/error.h"
#include "model/sandbox.h"
#include "node/doctor.h"
#include "node/images.h"
#include "node/status.h"
#include "wire/json.h"

namespace node {

base::Result<model::SandboxSpec> parse_spec(const wire::json::Object& object);
// A name that is safe as a folder and a host name.
bool is_sandbox_id(std::string_view id);

wire::json::Object to_json(const Status& status);
wire::json::Object to_json(const Change& change);
wire::json::Object to_json(const ImageRow& image);
wire::json::Object to_json(const PullProgress& progress);
wire::json::Object to_json(const Check& check);
wire::json::Object error_to_json(const base::Error& error);
// What the agent of that container of `spec` is told (api/agent-protocol.md).
std::string agent_config(const model::SandboxSpec& spec, const model::ContainerSpec& container,
                         const ImageConfig& image);

}  // namespace node
