#include "agent/login.h"

namespace agent {
namespace {

constexpr std::string_view kTerminalType = "xterm-256color";
constexpr std::string_view kTerminalLanguage = "C.UTF-8";

void add_variable(const Agent& agent, SessionRequest& request, const std::string& name,
                  std::string_view value) {
  if (!value.empty() && !agent.config.environment.contains(name)) {
    request.environment.try_emplace(name, value);
  }
}

}  // namespace

Result<void> make_login(Agent& agent, SessionRequest& request) {
  ASSIGN_OR_RETURN(const Identity identity,
                   agent.accounts.find(request.user.value_or(agent.config.user)));
  request.program = login_shell(agent.accounts.shell_of(identity.uid));
  // The name by which a shell knows that it is one.
  request.argv = {base::cat("-", request.program.substr(request.program.rfind('/') + 1))};
  const std::string user = agent.accounts.name_of(identity.uid);
  add_variable(agent, request, "SHELL", request.program);
  add_variable(agent, request, "USER", user);
  add_variable(agent, request, "LOGNAME", user);
  return {};
}

void add_terminal_environment(const Agent& agent, SessionRequest& request) {
  if (request.terminal) {
    add_variable(agent, request, "TERM", kTerminalType);
    add_variable(agent, request, "LANG", kTerminalLanguage);
  }
}

}  // namespace agent
