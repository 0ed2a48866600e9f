#include "agent/session_request.h"

#include <signal.h>
#include <string.h>

#include <algorithm>

namespace agent {
namespace {

using base::fail_field;

constexpr size_t kNameBytesMax = 64;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

Result<uint16_t> read_side(wire::json::Reader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const auto side, reader.required<int64_t>(name));
  if (side < 1 || side > kWindowSideMax) {
    return fail_field(reader.path(name), "'", reader.path(name), "' must be from 1 to ",
                      kWindowSideMax);
  }
  return static_cast<uint16_t>(side);
}

}  // namespace

Result<void> check_session_name(std::string_view name) {
  // "." and ".." are no names in an address.
  if (name.empty() || name == "." || name == ".." || name.size() > kNameBytesMax ||
      !std::ranges::all_of(name, is_name_char)) {
    return fail_field("name", "a session's name has 1 to ", kNameBytesMax,
                      " letters, digits, '-', '_' and '.', and is not '.' or '..'");
  }
  return {};
}

Result<WindowSize> read_window_size(wire::json::Reader& reader) {
  WindowSize size;
  ASSIGN_OR_RETURN(size.columns, read_side(reader, "cols"));
  ASSIGN_OR_RETURN(size.rows, read_side(reader, "rows"));
  return size;
}

Result<WindowSize> parse_window_size(std::string_view body) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(const WindowSize size, read_window_size(reader));
  RETURN_IF_ERROR(reader.finish());
  return size;
}

Result<SessionRequest> parse_session_request(std::string_view body) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  SessionRequest request;
  ASSIGN_OR_RETURN(const auto terminal, reader.optional<wire::json::Object>("tty"));
  ASSIGN_OR_RETURN(const auto input, reader.optional<bool>("stdin"));
  ASSIGN_OR_RETURN(const auto followed, reader.optional<bool>("followed"));
  ASSIGN_OR_RETURN(const auto name, reader.optional<std::string>("name"));
  ASSIGN_OR_RETURN(const auto log_bytes, reader.optional<int64_t>("log_limit_bytes"));
  ASSIGN_OR_RETURN(static_cast<CommandRequest&>(request), read_command_request(reader));
  RETURN_IF_ERROR(reader.finish());
  if (terminal) {
    wire::json::Reader size_reader(*terminal, "tty");
    ASSIGN_OR_RETURN(request.terminal, read_window_size(size_reader));
    RETURN_IF_ERROR(size_reader.finish());
  }
  request.input = input.value_or(true);
  request.followed = followed.value_or(false);
  if (name) {
    RETURN_IF_ERROR(check_session_name(*name));
    request.name = *name;
  }
  if (log_bytes) {
    if (*log_bytes < static_cast<int64_t>(kLogBytesMin) ||
        *log_bytes > static_cast<int64_t>(kLogBytesMax)) {
      return fail_field("log_limit_bytes", "'log_limit_bytes' must be from ", kLogBytesMin, " to ",
                        kLogBytesMax);
    }
    request.log_bytes = static_cast<uint64_t>(*log_bytes);
  }
  return request;
}

Result<int> parse_signal(std::string_view name) {
  const std::string_view short_name = name.starts_with("SIG") ? name.substr(3) : name;
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && short_name == known) {
      return number;
    }
  }
  return fail_field("signal", "there is no signal of that name");
}

Result<int> parse_kill(std::string_view body) {
  if (body.empty()) {
    return SIGTERM;
  }
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(const auto name, reader.optional<std::string>("signal"));
  RETURN_IF_ERROR(reader.finish());
  return parse_signal(name.value_or("TERM"));
}

}  // namespace agent
