// The body of POST /run as a value that cannot be wrong: strictly parsed, every field checked.
// Bounds: the body's size (the server's), argv as the kernel takes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.h"
#include "base/clock.h"

namespace agent {

enum class OutputEncoding { utf8, base64 };

struct RunRequest {
  // Exactly one of the two.
  std::vector<std::string> argv;
  std::optional<std::string> command;
  Environment environment;
  std::string cwd;  // empty: the default
  std::optional<std::string> user;
  std::string input;
  std::optional<base::Milliseconds> timeout;
  OutputEncoding encoding = OutputEncoding::utf8;
};

Result<RunRequest> parse_run_request(std::string_view body);

}  // namespace agent
