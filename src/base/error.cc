#include "base/error.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace base {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int status;
};

using enum ErrorCode;
constexpr auto kCodes = std::to_array<CodeRow>({
    {malformed, "malformed", 400},
    {unauthenticated, "unauthenticated", 401},
    {forbidden, "forbidden", 403},
    {image_not_allowed, "image_not_allowed", 403},
    {permission_denied, "permission_denied", 403},
    {read_only, "read_only", 403},
    {not_found, "not_found", 404},
    {file_not_found, "file_not_found", 404},
    {method_not_allowed, "method_not_allowed", 405},
    {request_timeout, "request_timeout", 408},
    {body_too_large, "body_too_large", 413},
    {range_not_satisfiable, "range_not_satisfiable", 416},
    {headers_too_large, "headers_too_large", 431},
    {not_ready, "not_ready", 409},
    {idempotency_conflict, "idempotency_conflict", 409},
    {conflict, "conflict", 409},
    {in_use, "in_use", 409},
    {session_exited, "session_exited", 409},
    {is_a_directory, "is_a_directory", 409},
    {not_a_directory, "not_a_directory", 409},
    {not_a_file, "not_a_file", 409},
    {file_exists, "file_exists", 409},
    {invalid_field, "invalid_field", 422},
    {missing_field, "missing_field", 422},
    {unknown_field, "unknown_field", 422},
    {not_supported, "not_supported", 422},
    {quota_never, "quota_never", 422},
    {cwd_invalid, "cwd_invalid", 422},
    {user_unknown, "user_unknown", 422},
    {path_invalid, "path_invalid", 422},
    {archive_invalid, "archive_invalid", 422},
    {compose_invalid, "compose_invalid", 422},
    {dockerfile_invalid, "dockerfile_invalid", 422},
    {rate_limited, "rate_limited", 429},
    {overloaded, "overloaded", 429},
    {internal, "internal", 500},
    {agent_failed, "agent_failed", 502},
    {unavailable, "unavailable", 503},
    {ssh_unavailable, "ssh_unavailable", 503},
    {draining, "draining", 503},
    {disk_full, "disk_full", 507},
    {cancelled, "cancelled", 503},
    {deadline_exceeded, "deadline_exceeded", 503},
    {connection_closed, "connection_closed", 502},
    {io, "io", 500},
});

const CodeRow& row(ErrorCode code) { return *std::ranges::find(kCodes, code, &CodeRow::code); }

}  // namespace

std::string_view to_string(ErrorCode code) { return row(code).name; }

bool parse_error_code(std::string_view text, ErrorCode& code) {
  const auto* found = std::ranges::find(kCodes, text, &CodeRow::name);
  if (found == kCodes.end()) {
    return false;
  }
  code = found->code;
  return true;
}

int http_status(ErrorCode code) { return row(code).status; }

Error Error::with(std::string key, std::string value) && {
  details.emplace_back(std::move(key), std::move(value));
  return std::move(*this);
}

Error errno_error(int errno_value, std::string what) {
  std::array<char, 128> buffer{};
  // The GNU form: never touches a shared buffer for known numbers.
  const char* text = ::strerror_r(errno_value, buffer.data(), buffer.size());
  return Error{.code = ErrorCode::io,
               .message = cat(what, ": ", text),
               .details = {},
               .errno_value = errno_value};
}

}  // namespace base
