// Healthchecks and restarts of a service. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "model/service.h"
#include "wire/json.h"

namespace compose {

// nullopt: it is disabled.
base::Result<std::optional<model::Healthcheck>> read_healthcheck(const wire::json::Value& value,
                                                                 const std::string& field);
// `restart`, and `deploy.restart_policy`, into the service.
base::Result<void> read_restart(const wire::json::Value& value, model::Service& service,
                                const std::string& field);
base::Result<void> read_restart_policy(const wire::json::Value& value, model::Service& service,
                                       const std::string& field);

}  // namespace compose
