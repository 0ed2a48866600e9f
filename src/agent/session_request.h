// The body of POST /sessions, and the other small bodies and names of the session routes, as values
// that cannot be wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/command_request.h"
#include "agent/terminal.h"

namespace agent {

inline constexpr uint64_t kLogBytesDefault = 16ULL * 1024 * 1024;
inline constexpr uint64_t kLogBytesMin = 64ULL * 1024;
inline constexpr uint64_t kLogBytesMax = 1024ULL * 1024 * 1024;

struct SessionRequest : CommandRequest {
  std::optional<WindowSize> terminal;
  bool input = true;      // it has a standard input that can be written to
  bool followed = false;  // somebody is about to follow it from its beginning
  std::string name;       // empty: none
  uint64_t log_bytes = kLogBytesDefault;
};

Result<SessionRequest> parse_session_request(std::string_view body);
// {"cols","rows"}
Result<WindowSize> parse_window_size(std::string_view body);
Result<WindowSize> read_window_size(wire::json::Reader& reader);
// {"signal":"TERM"}; an empty body is TERM. The number.
Result<int> parse_kill(std::string_view body);
// "TERM", "SIGTERM".
Result<int> parse_signal(std::string_view name);
Result<void> check_session_name(std::string_view name);

}  // namespace agent
