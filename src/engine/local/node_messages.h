// What the gateway and the node say to each other (api/node-protocol.md), as values. The node's
// answers are checked and limited here: texts are cut, unknown states refused, unknown fields and
// event types passed over (a newer node may know more).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "wire/json.h"

namespace engine {

// Safe as a file name and a DNS label: [a-z0-9-], at most 63.
bool is_sandbox_id(std::string_view id);

wire::json::Object spec_to_json(const model::SandboxSpec& spec);

Result<Status> parse_status(const wire::json::Object& object, std::string_view node);
Result<Change> parse_change(const wire::json::Object& object, std::string_view node);
Result<std::vector<Status>> parse_statuses(const wire::json::Object& answer, std::string_view node);
Result<std::vector<Usage>> parse_usages(const wire::json::Object& answer);
Result<NodeInfo> parse_node(const wire::json::Object& answer);
Result<ImageInfo> parse_image(const wire::json::Object& object);
Result<std::vector<ImageInfo>> parse_images(const wire::json::Object& answer);
Result<PullProgress> parse_progress(const wire::json::Object& answer);
Result<GcResult> parse_gc(const wire::json::Object& answer);
// The error that an answer carries; never fails: what cannot be read is `internal`.
base::Error parse_error(const wire::json::Value& value);

}  // namespace engine
