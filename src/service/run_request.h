// The bodies of the routes that start and steer commands, checked once before they go to the agent
// as they are. Pure; every refusal names its field.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "wire/json.h"

namespace service {

// Sides of a terminal, in characters.
inline constexpr int64_t kTerminalSideMax = 10'000;

struct RunRequest {
  std::string body;          // for the agent
  std::string argv_text;     // for the log: what is run, cut to a few hundred bytes; never env
  std::string container;     // empty: main
  std::string user;          // as asked for; empty: the sandbox's
  wire::json::Object audit;  // for the audit log: argv or command, cwd, user, timeout_sec; bounded
};

base::Result<RunRequest> parse_run(std::string body);
// The line before an exec's standard input.
base::Result<RunRequest> parse_exec(std::string line);
base::Result<RunRequest> parse_session(std::string body);
// {"signal"}, TERM where it or the body is missing; {"cols","rows"}.
base::Result<void> parse_kill(std::string_view body);
base::Result<void> parse_resize(std::string_view body);

// Also of a session's id: safe in a path as it is.
bool is_session_name(std::string_view text);

}  // namespace service
