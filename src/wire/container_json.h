// Containers of a sandbox as JSON: in the node's protocol, and in the gateway's store. What is read
// is checked again by who reads it, whoever wrote it. Pure.
#pragma once

#include <string>
#include <vector>

#include "model/sandbox.h"
#include "wire/json.h"

namespace wire {

inline constexpr size_t kContainersMax = 16;
inline constexpr size_t kMountsMax = 16;

json::Object to_json(const model::ContainerSpec& container);
base::Result<model::ContainerSpec> parse_container(const json::Value& value);
// 1 to kContainersMax, of different names.
base::Result<std::vector<model::ContainerSpec>> parse_containers(const json::Array& values);

// With the password: only for who fetches the image with it.
json::Object to_json(const model::RegistryAccess& access);
base::Result<model::RegistryAccess> parse_registry(const json::Object& object);

// A healthcheck alone, as the agent gets it.
json::Object to_json(const model::Healthcheck& check);
base::Result<model::Healthcheck> parse_healthcheck(const json::Object& object);

std::string_view to_string(model::Restart restart);
base::Result<model::Restart> parse_restart(std::string_view text);

}  // namespace wire
