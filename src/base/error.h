// The one error value of the project: a closed code, a sentence that names step and object, and
// details for programs. Expected failures travel as Result<T>; exceptions mean a bug.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace base {

// The API's closed list (api/openapi.yaml names them per route), then those that only our own
// code sees and that the server maps to one of the former.
enum class ErrorCode {
  malformed,
  unauthenticated,
  forbidden,
  image_not_allowed,
  permission_denied,
  read_only,
  not_found,
  file_not_found,
  method_not_allowed,
  request_timeout,
  body_too_large,
  range_not_satisfiable,
  headers_too_large,
  not_ready,
  idempotency_conflict,
  conflict,
  in_use,
  session_exited,
  is_a_directory,
  not_a_directory,
  not_a_file,
  file_exists,
  invalid_field,
  missing_field,
  unknown_field,
  not_supported,
  quota_never,
  cwd_invalid,
  user_unknown,
  path_invalid,
  archive_invalid,
  compose_invalid,
  dockerfile_invalid,
  rate_limited,
  overloaded,
  internal,
  agent_failed,
  unavailable,
  ssh_unavailable,
  draining,
  disk_full,
  // Internal only:
  cancelled,          // the owner of the work gave it up
  deadline_exceeded,  // a wait's own deadline passed
  connection_closed,  // the peer is gone
  io,                 // a system call failed; the message names it and its errno
};

// "not_found" and so on; the API's spelling.
std::string_view to_string(ErrorCode code);
// The code of that spelling, or nullopt-like false. Used on what a peer sent.
bool parse_error_code(std::string_view text, ErrorCode& code);
// The HTTP status the API answers with for a code (internal codes: 500, 502 or 503).
int http_status(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::vector<std::pair<std::string, std::string>> details;
  int errno_value = 0;  // of code io, else 0

  // The same error with one more detail ("field", "state", ...).
  Error with(std::string key, std::string value) &&;
};

template <typename T>
using Result = std::expected<T, Error>;

// `return base::fail(ErrorCode::not_found, "sandbox ", id, " does not exist");`
template <typename... Parts>
std::unexpected<Error> fail(ErrorCode code, const Parts&... parts) {
  return std::unexpected(Error{.code = code, .message = cat(parts...)});
}
// A 422 that names the field: details.field.
template <typename... Parts>
std::unexpected<Error> fail_field(std::string_view field, const Parts&... parts) {
  return std::unexpected(Error{.code = ErrorCode::invalid_field,
                               .message = cat(parts...),
                               .details = {{"field", std::string(field)}}});
}
// Code io from an errno: "open /x: No such file or directory".
Error errno_error(int errno_value, std::string what);
template <typename... Parts>
std::unexpected<Error> fail_errno(int errno_value, const Parts&... parts) {
  return std::unexpected(errno_error(errno_value, cat(parts...)));
}
// Puts "context: " before the message.
template <typename T>
Result<T> with_context(Result<T> result, std::string_view context) {
  if (!result) {
    result.error().message = cat(context, ": ", result.error().message);
  }
  return result;
}

}  // namespace base

#define BASE_CONCAT_(a, b) a##b
#define BASE_CONCAT(a, b) BASE_CONCAT_(a, b)
// RETURN_IF_ERROR(expr): leaves the function with expr's error.
#define RETURN_IF_ERROR(expr)                             \
  do {                                                    \
    if (auto status_ = (expr); !status_) {                \
      return std::unexpected(std::move(status_).error()); \
    }                                                     \
  } while (false)
#define CO_RETURN_IF_ERROR(expr)                             \
  do {                                                       \
    if (auto status_ = (expr); !status_) {                   \
      co_return std::unexpected(std::move(status_).error()); \
    }                                                        \
  } while (false)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration and a keyword take none
#define ASSIGN_OR_RETURN_(tmp, decl, expr, ret)  \
  auto tmp = (expr);                             \
  if (!tmp) {                                    \
    ret std::unexpected(std::move(tmp).error()); \
  }                                              \
  decl = std::move(*tmp)
// NOLINTEND(bugprone-macro-parentheses)
// ASSIGN_OR_RETURN(auto fd, open(...)); in a coroutine CO_ASSIGN_OR_RETURN.
#define ASSIGN_OR_RETURN(decl, expr) \
  ASSIGN_OR_RETURN_(BASE_CONCAT(result_, __LINE__), decl, expr, return)
#define CO_ASSIGN_OR_RETURN(decl, expr) \
  ASSIGN_OR_RETURN_(BASE_CONCAT(result_, __LINE__), decl, expr, co_return)
