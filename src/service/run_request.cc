#include "service/run_request.h"

#include <algorithm>
#include <map>

#include "service/audit.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;
using wire::json::Object;
using wire::json::Reader;

constexpr size_t kArgumentsMax = 65'536;
constexpr size_t kLoggedBytesMax = 256;
// A year: the sandbox's lifetime ends it long before.
constexpr double kTimeoutSecondsMax = 31'536'000;
constexpr size_t kSessionNameBytesMax = 64;
constexpr size_t kSignalBytesMax = 16;  // "RTMAX-14"

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

// The arguments as one text for the log.
std::string join(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& argument : argv) {
    if (text.size() >= kLoggedBytesMax) {
      break;
    }
    text += text.empty() ? "" : " ";
    text += argument.substr(0, kLoggedBytesMax);
  }
  return text;
}

// A program that the agent brings along (api/agent-protocol.md "Helpers").
Result<std::string> check_helper(const std::string& helper,
                                 const std::optional<std::vector<std::string>>& argv,
                                 wire::json::Object& audit) {
  const bool takes_words = helper == "scp";
  if (!takes_words && helper != "sftp") {
    return fail_field("helper", "'helper' must be sftp or scp");
  }
  if (takes_words != argv.has_value()) {
    return fail_field("argv", "'argv' is for the helper scp, which needs it");
  }
  audit["helper"] = helper;
  if (!argv) {
    return helper;
  }
  RETURN_IF_ERROR(check_argv(*argv));
  audit["argv"] = audit_list(*argv);
  return base::cat(helper, " ", join(*argv));
}

Result<std::string> read_command(Reader& reader, wire::json::Object& audit) {
  ASSIGN_OR_RETURN(const auto argv, reader.optional<std::vector<std::string>>("argv"));
  ASSIGN_OR_RETURN(const auto command, reader.optional<std::string>("command"));
  ASSIGN_OR_RETURN(const auto helper, reader.optional<std::string>("helper"));
  if (helper && command) {
    return fail_field("command", "give either 'command' or 'helper'");
  }
  if (helper) {
    return check_helper(*helper, argv, audit);
  }
  if (argv && command) {
    return fail_field("command", "give either 'argv' or 'command'");
  }
  if (!argv && !command) {
    auto error = base::fail(ErrorCode::missing_field, "'argv', 'command' or 'helper' is required");
    error.error().details.emplace_back("field", "argv");
    return error;
  }
  if (command) {
    if (has_nul(*command)) {
      return fail_field("command", "'command' contains NUL");
    }
    audit["command"] = audit_text(*command);
    return command->substr(0, kLoggedBytesMax);
  }
  RETURN_IF_ERROR(check_argv(*argv));
  audit["argv"] = audit_list(*argv);
  return join(*argv);
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

Result<std::string> read_user(Reader& reader) {
  ASSIGN_OR_RETURN(auto user, reader.optional<std::string>("user"));
  if (user && (user->empty() || has_nul(*user))) {
    return fail_field("user", "'user' must not be empty or contain NUL");
  }
  return std::move(user).value_or(std::string());
}

// What every surface takes.
Result<void> read_fields(Reader& reader, RunRequest& request) {
  ASSIGN_OR_RETURN(request.argv_text, read_command(reader, request.audit));
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
  ASSIGN_OR_RETURN(request.user, read_user(reader));
  if (cwd) {
    request.audit["cwd"] = audit_text(*cwd);
  }
  if (!request.user.empty()) {
    request.audit["user"] = audit_text(request.user);
  }
  ASSIGN_OR_RETURN(const auto timeout, reader.optional<double>("timeout_sec"));
  if (timeout && (!(*timeout > 0) || *timeout > kTimeoutSecondsMax)) {
    return fail_field("timeout_sec", "'timeout_sec' must be more than 0 and at most a year");
  }
  if (timeout) {
    request.audit["timeout_sec"] = *timeout;
  }
  return {};
}

Result<void> read_input_and_encoding(Reader& reader) {
  RETURN_IF_ERROR(reader.optional<std::string>("stdin"));
  RETURN_IF_ERROR(check_choice(reader, "stdin_encoding"));
  return check_choice(reader, "encoding");
}

Result<void> check_side(Reader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const auto value, reader.required<int64_t>(name));
  if (value < 1 || value > kTerminalSideMax) {
    return fail_field(reader.path(name), "'", reader.path(name), "' must be from 1 to ",
                      kTerminalSideMax);
  }
  return {};
}

Result<void> check_terminal(Reader& reader) {
  ASSIGN_OR_RETURN(const auto terminal, reader.optional<Object>("tty"));
  if (!terminal) {
    return {};
  }
  Reader size(*terminal, "tty");
  RETURN_IF_ERROR(check_side(size, "cols"));
  RETURN_IF_ERROR(check_side(size, "rows"));
  return size.finish();
}

Result<void> read_session_fields(Reader& reader) {
  RETURN_IF_ERROR(check_terminal(reader));
  RETURN_IF_ERROR(reader.optional<bool>("stdin"));
  RETURN_IF_ERROR(reader.optional<bool>("followed"));
  ASSIGN_OR_RETURN(const auto name, reader.optional<std::string>("name"));
  if (name && !is_session_name(*name)) {
    return fail_field("name", "'name' must be 1 to ", kSessionNameBytesMax,
                      " letters, digits, '.', '_' or '-', and not '.' or '..'");
  }
  ASSIGN_OR_RETURN(const auto limit, reader.optional<int64_t>("log_limit_bytes"));
  if (limit && *limit < 1) {
    return fail_field("log_limit_bytes", "'log_limit_bytes' must be at least 1");
  }
  return {};
}

// Checks `body` by the common fields and by `read_others`.
Result<RunRequest> parse_command(std::string body, Result<void> (*read_others)(Reader&)) {
  ASSIGN_OR_RETURN(auto object, wire::json::parse_object(body));
  Reader reader(object);
  RunRequest request;
  RETURN_IF_ERROR(read_fields(reader, request));
  RETURN_IF_ERROR(read_others(reader));
  ASSIGN_OR_RETURN(const auto container, reader.optional<std::string>("container"));
  RETURN_IF_ERROR(reader.finish());
  if (container) {
    request.container = *container;
    // The agent serves one container and knows no such field.
    object.erase("container");
    body = wire::json::serialize(object);
  }
  request.body = std::move(body);
  return request;
}

}  // namespace

bool is_session_name(std::string_view text) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  // "." and ".." are no names in an address.
  return !text.empty() && text != "." && text != ".." && text.size() <= kSessionNameBytesMax &&
         std::ranges::all_of(text, fine);
}

Result<RunRequest> parse_run(std::string body) {
  return parse_command(std::move(body), read_input_and_encoding);
}

Result<RunRequest> parse_exec(std::string line) {
  constexpr auto kNothingElse = [](Reader&) -> Result<void> { return {}; };
  return parse_command(std::move(line), kNothingElse);
}

Result<RunRequest> parse_session(std::string body) {
  return parse_command(std::move(body), read_session_fields);
}

Result<void> parse_kill(std::string_view body) {
  if (body.empty()) {
    return {};
  }
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  Reader reader(object);
  ASSIGN_OR_RETURN(const auto given, reader.optional<std::string>("signal"));
  const std::string signal = given.value_or("TERM");
  const auto fine = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
  };
  if (signal.empty() || signal.size() > kSignalBytesMax || !std::ranges::all_of(signal, fine)) {
    return fail_field("signal", "'signal' must be a name such as TERM");
  }
  return reader.finish();
}

Result<void> parse_resize(std::string_view body) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  Reader reader(object);
  RETURN_IF_ERROR(check_side(reader, "cols"));
  RETURN_IF_ERROR(check_side(reader, "rows"));
  return reader.finish();
}

}  // namespace service
