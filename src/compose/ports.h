// What services say they listen on. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "wire/json.h"

namespace compose {

// `ports` and `expose` of a service (null: none) as "80/tcp", the containers' side only: nothing is
// published, a sandbox's services share one network.
base::Result<std::vector<std::string>> read_ports(const std::string& service,
                                                  const wire::json::Value* ports,
                                                  const wire::json::Value* expose);

}  // namespace compose
