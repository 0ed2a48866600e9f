#include "service/run_request.h"

#include <map>

#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;
using wire::json::Reader;

constexpr size_t kArgumentsMax = 65'536;
constexpr size_t kLoggedBytesMax = 256;
// A year: the sandbox's lifetime ends it long before.
constexpr double kTimeoutSecondsMax = 31'536'000;

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

Result<void> check_argv(const std::vector<std::string>& argv) {
  if (argv.empty()) {
    return fail_field("argv", "'argv' must not be empty");
  }
  if (argv.front().empty()) {
    return fail_field("argv", "the program's name must not be empty");
  }
  if (argv.size() > kArgumentsMax) {
    return fail_field("argv", "more than ", kArgumentsMax, " arguments");
  }
  for (const std::string& argument : argv) {
    if (has_nul(argument)) {
      return fail_field("argv", "an argument contains NUL");
    }
  }
  return {};
}

Result<std::string> read_command(Reader& reader) {
  ASSIGN_OR_RETURN(const auto argv, reader.optional<std::vector<std::string>>("argv"));
  ASSIGN_OR_RETURN(const auto command, reader.optional<std::string>("command"));
  if (argv && command) {
    return fail_field("command", "give either 'argv' or 'command'");
  }
  if (!argv && !command) {
    auto error = base::fail(ErrorCode::missing_field, "'argv' or 'command' is required");
    error.error().details.emplace_back("field", "argv");
    return error;
  }
  if (command) {
    if (has_nul(*command)) {
      return fail_field("command", "'command' contains NUL");
    }
    return command->substr(0, kLoggedBytesMax);
  }
  RETURN_IF_ERROR(check_argv(*argv));
  std::string text;
  for (const std::string& argument : *argv) {
    if (text.size() >= kLoggedBytesMax) {
      break;
    }
    text += text.empty() ? "" : " ";
    text += argument.substr(0, kLoggedBytesMax);
  }
  return text;
}

Result<void> check_environment(const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) {
    if (name.empty() || has_nul(name) || name.find('=') != std::string::npos) {
      return fail_field("env", "a variable's name must not be empty or contain '=' or NUL");
    }
    if (has_nul(value)) {
      return fail_field("env", "the value of '", name, "' contains NUL");
    }
  }
  return {};
}

Result<void> check_choice(Reader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const auto value, reader.optional<std::string>(name));
  if (value && *value != "utf8" && *value != "base64") {
    return fail_field(name, "'", name, "' must be utf8 or base64");
  }
  return {};
}

Result<void> check_text(Reader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const auto value, reader.optional<std::string>(name));
  if (value && (value->empty() || has_nul(*value))) {
    return fail_field(name, "'", name, "' must not be empty or contain NUL");
  }
  return {};
}

}  // namespace

Result<RunRequest> parse_run(std::string body) {
  ASSIGN_OR_RETURN(auto object, wire::json::parse_object(body));
  Reader reader(object);
  RunRequest request;
  ASSIGN_OR_RETURN(request.argv_text, read_command(reader));
  ASSIGN_OR_RETURN(const auto environment,
                   (reader.optional<std::map<std::string, std::string>>("env")));
  if (environment) {
    RETURN_IF_ERROR(check_environment(*environment));
  }
  ASSIGN_OR_RETURN(const auto cwd, reader.optional<std::string>("cwd"));
  if (cwd && (cwd->empty() || has_nul(*cwd))) {
    return std::unexpected(base::Error{.code = ErrorCode::cwd_invalid,
                                       .message = "'cwd' must not be empty or contain NUL",
                                       .details = {{"field", "cwd"}}});
  }
  RETURN_IF_ERROR(check_text(reader, "user"));
  ASSIGN_OR_RETURN(const auto stdin_text, reader.optional<std::string>("stdin"));
  RETURN_IF_ERROR(check_choice(reader, "stdin_encoding"));
  RETURN_IF_ERROR(check_choice(reader, "encoding"));
  ASSIGN_OR_RETURN(const auto timeout, reader.optional<double>("timeout_sec"));
  if (timeout && (!(*timeout > 0) || *timeout > kTimeoutSecondsMax)) {
    return fail_field("timeout_sec", "'timeout_sec' must be more than 0 and at most a year");
  }
  ASSIGN_OR_RETURN(const auto container, reader.optional<std::string>("container"));
  RETURN_IF_ERROR(reader.finish());
  if (container && *container != "main") {
    return fail_field("container", "there is no container '", *container, "'");
  }
  if (container) {
    // The agent serves one container and knows no such field.
    object.erase("container");
    body = wire::json::serialize(object);
  }
  request.body = std::move(body);
  return request;
}

}  // namespace service
