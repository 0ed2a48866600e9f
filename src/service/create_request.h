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
#include "wire/json.h"

namespace service {

struct CreateRequest {
  model::SandboxSpec spec;  // without id and registry access
  std::map<std::string, std::string> labels;
  int64_t lease_sec = 0;
  int64_t max_lifetime_sec = 0;
};

// image_not_allowed where the team has prefixes and none covers the normalised name.
base::Result<void> check_image_allowed(const Team& team, std::string_view normalised);

// What a create is measured against.
struct CreateLimits {
  const Team& team;
  Capacity capacity;
  bool local_images = false;  // "dir:/..." and "tar:/..." of the node's disk
  // By the compose file's service; null: none.
  const std::map<std::string, std::string>* built_images = nullptr;
};

// The name an image is kept under; image_not_allowed.
base::Result<std::string> check_image(const std::string& image, const CreateLimits& limits);

// `team` in the body is to be the name of that team: the caller has chosen it by that.
base::Result<CreateRequest> parse_create(const wire::json::Object& body,
                                         const CreateLimits& limits);

// {"mode": "allow", "allow": ["example.com"]}, the value of `field`.
base::Result<model::NetworkPolicy> parse_network(const wire::json::Object& object,
                                                 const std::string& field);

// How the API shows it.
wire::json::Object network_json(const model::NetworkPolicy& policy);
// Of a sandbox that names none.
model::NetworkPolicy team_network(const Team& team);

struct PatchRequest {
  std::optional<std::map<std::string, std::string>> labels;
  std::optional<int64_t> lease_sec;
  std::optional<model::NetworkPolicy> network;
};

base::Result<PatchRequest> parse_patch(std::string_view body, const Team& team);

}  // namespace service
