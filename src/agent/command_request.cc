#include "agent/command_request.h"

#include <cmath>

#include "agent/own_programs.h"

namespace agent {
namespace {

using base::fail_field;

// A hundred years; more would overflow a deadline.
constexpr double kTimeoutSecondsMax = 3.2e9;

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

Result<void> check_environment(const Environment& environment) {
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name)) {
      return fail_field(base::cat("env.", name), "the name '", name,
                        "' of an environment variable is empty or holds '=' or NUL");
    }
    if (has_nul(value)) {
      return fail_field(base::cat("env.", name), "the value of the environment variable '", name,
                        "' holds NUL");
    }
  }
  return {};
}

// The words that the agent's binary is run with.
Result<std::vector<std::string>> helper_argv(std::string_view helper,
                                             std::vector<std::string> words, bool has_words) {
  if (helper == "sftp") {
    return has_words ? Result<std::vector<std::string>>(
                           fail_field("argv", "the helper sftp takes no 'argv'"))
                     : std::vector<std::string>{kSftpProgram};
  }
  if (helper != "scp") {
    return fail_field("helper", "'helper' must be sftp or scp");
  }
  if (words.empty()) {
    return fail_field("argv", "the helper scp needs 'argv'");
  }
  words.insert(words.begin(), kScpProgram);
  return words;
}

Result<void> check_program(const CommandRequest& request, bool has_argv) {
  if (has_argv == request.command.has_value()) {
    auto error = base::fail(has_argv ? ErrorCode::invalid_field : ErrorCode::missing_field,
                            "exactly one of 'argv', 'command' and 'helper' is required");
    error.error().details.emplace_back("field", "argv");
    return error;
  }
  if (request.command) {
    return has_nul(*request.command) ? fail_field("command", "the command holds NUL")
                                     : Result<void>{};
  }
  if (request.argv.empty()) {
    return fail_field("argv", "'argv' is empty");
  }
  for (const std::string& argument : request.argv) {
    if (has_nul(argument)) {
      return fail_field("argv", "an argument holds NUL");
    }
  }
  return {};
}

}  // namespace

Result<CommandRequest> read_command_request(wire::json::Reader& reader) {
  CommandRequest request;
  ASSIGN_OR_RETURN(auto argv, reader.optional<std::vector<std::string>>("argv"));
  ASSIGN_OR_RETURN(request.command, reader.optional<std::string>("command"));
  ASSIGN_OR_RETURN(const auto helper, reader.optional<std::string>("helper"));
  ASSIGN_OR_RETURN(auto environment, reader.optional<Environment>("env"));
  ASSIGN_OR_RETURN(auto cwd, reader.optional<std::string>("cwd"));
  ASSIGN_OR_RETURN(request.user, reader.optional<std::string>("user"));
  ASSIGN_OR_RETURN(const auto timeout, reader.optional<double>("timeout_sec"));
  request.is_helper = helper.has_value();
  const bool is_given = argv.has_value();
  const bool has_argv = is_given || request.is_helper;
  request.argv = std::move(argv).value_or(std::vector<std::string>{});
  if (helper) {
    ASSIGN_OR_RETURN(request.argv, helper_argv(*helper, std::move(request.argv), is_given));
  }
  request.environment = std::move(environment).value_or(Environment{});
  request.cwd = std::move(cwd).value_or("");
  RETURN_IF_ERROR(check_program(request, has_argv));
  RETURN_IF_ERROR(check_environment(request.environment));
  if (has_nul(request.cwd)) {
    return fail_field("cwd", "'cwd' holds NUL");
  }
  if (timeout) {
    if (!(*timeout > 0) || *timeout > kTimeoutSecondsMax) {
      return fail_field("timeout_sec", "'timeout_sec' must be above 0");
    }
    constexpr double kMillisecondsPerSecond = 1000;
    request.timeout =
        base::Milliseconds(static_cast<int64_t>(std::ceil(*timeout * kMillisecondsPerSecond)));
  }
  return request;
}

}  // namespace agent
