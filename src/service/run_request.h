// The body of POST .../run, checked before it goes to the agent as it is. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace service {

struct RunRequest {
  std::string body;       // for the agent
  std::string argv_text;  // for the log: what is run, cut to a few hundred bytes; never env
};

base::Result<RunRequest> parse_run(std::string body);

}  // namespace service
