// Names and addresses of /etc/hosts. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace compose {

// All services of a sandbox share one network, so that is where each finds every other.
inline constexpr std::string_view kLoopback = "127.0.0.1";

base::Result<void> check_host_name(std::string_view name, std::string_view field);
// IPv4, the only one that a sandbox has.
bool is_address(std::string_view text);

}  // namespace compose
