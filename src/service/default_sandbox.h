// What a create without a body makes (/api/v1): the operator's image and size.
#pragma once

#include <cstdint>
#include <string>

namespace service {

struct DefaultSandbox {
  std::string image = "agent";  // as in POST /sandboxes; that of images/agent by default
  int64_t millicpus = 1'000;
  int64_t memory_mb = 2'048;
};

}  // namespace service
