// What a sandbox uses now (api/node-protocol.md, operation `stats`). A value, read from a dozen
// small kernel files; kUsageUnknown where the host does not count something.
#pragma once

#include <cstdint>
#include <string>

#include "node/place.h"
#include "wire/json.h"

namespace node {

struct Usage {
  std::string id;
  CgroupUsage processes;
  int64_t storage_bytes = kUsageUnknown;
  int64_t received_bytes = kUsageUnknown;
  int64_t sent_bytes = kUsageUnknown;
};

// Of the sandbox that has the place `index`.
Usage read_usage(Places& places, uint32_t index, std::string id);
wire::json::Object to_json(const Usage& usage);

}  // namespace node
