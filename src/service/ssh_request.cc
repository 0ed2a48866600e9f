#include "service/ssh_request.h"

#include <algorithm>
#include <map>
#include <vector>

#include "service/audit.h"

namespace service {
namespace {

using base::fail_field;
using base::Result;

constexpr size_t kVariablesMax = 256;
constexpr size_t kArgumentsMax = 1'100;  // as the agent's helpers take them

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

Result<void> check_environment(wire::json::Reader& reader) {
  ASSIGN_OR_RETURN(const auto variables,
                   (reader.optional<std::map<std::string, std::string>>("env")));
  if (!variables) {
    return {};
  }
  if (variables->size() > kVariablesMax) {
    return fail_field("env", "there are more than ", kVariablesMax, " variables");
  }
  for (const auto& [name, value] : *variables) {
    if (name.empty() || name.contains('=') || has_nul(name) || has_nul(value)) {
      return fail_field("env", "a variable's name is empty or holds '=', or there is a NUL");
    }
  }
  return {};
}

Result<void> check_terminal(wire::json::Reader& reader, wire::json::Object& audit) {
  ASSIGN_OR_RETURN(const auto terminal, reader.optional<wire::json::Object>("tty"));
  if (!terminal) {
    return {};
  }
  wire::json::Reader sides(*terminal, "tty");
  for (const char* side : {"cols", "rows"}) {
    ASSIGN_OR_RETURN(const auto number, sides.required<int64_t>(side));
    if (number < 1 || number > kTerminalSideMax) {
      return fail_field(sides.path(side), "it must be from 1 to ", kTerminalSideMax);
    }
  }
  audit["tty"] = true;
  return sides.finish();
}

// What is run, for the logs.
Result<std::string> read_what(wire::json::Reader& reader, wire::json::Object& audit) {
  ASSIGN_OR_RETURN(const auto command, reader.optional<std::string>("command"));
  ASSIGN_OR_RETURN(const auto login, reader.optional<bool>("login_shell"));
  ASSIGN_OR_RETURN(const auto helper, reader.optional<std::string>("helper"));
  ASSIGN_OR_RETURN(const auto argv, reader.optional<std::vector<std::string>>("argv"));
  const int ways = (command ? 1 : 0) + (login.value_or(false) ? 1 : 0) + (helper ? 1 : 0);
  if (ways != 1 || (argv && !helper)) {
    return fail_field("command", "exactly one of 'command', 'login_shell' and 'helper' is needed");
  }
  if (command) {
    if (has_nul(*command)) {
      return fail_field("command", "the command holds NUL");
    }
    audit["command"] = audit_text(*command);
    return *command;
  }
  if (login) {
    audit["shell"] = true;
    return "shell";
  }
  if (*helper != "sftp" && *helper != "scp") {
    return fail_field("helper", "there is no helper '", *helper, "'");
  }
  audit["helper"] = *helper;
  if (argv) {
    if (argv->size() > kArgumentsMax || std::ranges::any_of(*argv, has_nul)) {
      return fail_field("argv", "too many arguments, or one holds NUL");
    }
    audit["argv"] = audit_list(*argv);
  }
  return *helper;
}

}  // namespace

Result<RunRequest> parse_ssh_command(std::string body) {
  constexpr size_t kLoggedBytesMax = 512;
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  RunRequest request;
  ASSIGN_OR_RETURN(const auto what, read_what(reader, request.audit));
  RETURN_IF_ERROR(check_environment(reader));
  RETURN_IF_ERROR(check_terminal(reader, request.audit));
  RETURN_IF_ERROR(reader.finish());
  request.argv_text = what.substr(0, kLoggedBytesMax);
  request.body = std::move(body);
  return request;
}

}  // namespace service
