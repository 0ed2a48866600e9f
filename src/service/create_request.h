// The body of POST and PATCH /sandboxes, parsed once into values that cannot be wrong. Pure; every
// refusal names its field.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/sandbox.h"
#include "service/team.h"

namespace service {

struct CreateRequest {
  model::SandboxSpec spec;  // without id and registry access
  std::map<std::string, std::string> labels;
  int64_t lease_sec = 0;
  int64_t max_lifetime_sec = 0;
};

base::Result<CreateRequest> parse_create(std::string_view body, const Team& team,
                                         const Capacity& capacity);

struct PatchRequest {
  std::optional<std::map<std::string, std::string>> labels;
  std::optional<int64_t> lease_sec;
  std::optional<model::NetworkMode> network;
};

base::Result<PatchRequest> parse_patch(std::string_view body, const Team& team);

}  // namespace service
