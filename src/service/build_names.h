// Ids of the engine's sandboxes that belong to image builds and to no row of the store's: a team's
// builder, and the short-lived ones that base images are read from; and what lies in a builder.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/text.h"
#include "service/token_hash.h"

namespace service {

inline constexpr std::string_view kBuilderPrefix = "builder-";
inline constexpr std::string_view kBasePrefix = "base-";
inline constexpr size_t kNameDigits = 16;

// Sandboxes' own ids begin with "sbx-".
inline bool belongs_to_builds(std::string_view engine_id) {
  return engine_id.starts_with(kBuilderPrefix) || engine_id.starts_with(kBasePrefix);
}
inline std::string builder_of_team(std::string_view team) {
  return base::cat(kBuilderPrefix, token_hash(team).substr(0, kNameDigits));
}
// One for each build and image; it names its build, so that what is left of a dead one is found.
inline std::string base_of_build(std::string_view build, std::string_view image) {
  return base::cat(kBasePrefix, build, "-", token_hash(image).substr(0, kNameDigits));
}

// In the builder, on a file system in memory; builder/secrets.go takes it from there.
inline std::string secrets_of_build(std::string_view build) {
  return base::cat("/dev/shm/", build, ".json");
}

}  // namespace service
