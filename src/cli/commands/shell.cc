#include <unistd.h>

#include "cli/context.h"
#include "cli/session_pump.h"
#include "cli/session_target.h"

namespace cli {

namespace {

constexpr std::string_view kDefaultName = "terminal";

std::string terminal_target(const ShellOptions& options, const std::string& name) {
  const TerminalSize size = terminal_size();
  std::string query = base::cat("cols=", size.columns, "&rows=", size.rows);
  add_parameter(query, "session", name);
  return sandbox_target(options.sandbox, "/terminal?" + query);
}

}  // namespace

Result<int> shell(Context& context, const ShellOptions& options) {
  const std::string name = options.session.empty() ? std::string(kDefaultName) : options.session;
  OutputQueue output(context.console);
  AttachStream stream(context, terminal_target(options, name), std::nullopt, output);
  RETURN_IF_ERROR(stream.open());
  // A reconnect must find this shell, not make another one of its name.
  ASSIGN_OR_RETURN(const auto session,
                   context.api.get_object(session_target(options.sandbox, name)));
  stream.resume_at(session_target(options.sandbox, field_text(session, "id"), "/attach"));
  Result<PumpOutcome> outcome;
  {
    std::unique_ptr<RawTerminal> terminal;
    const bool person = ::isatty(STDIN_FILENO) == 1;
    if (person) {
      ASSIGN_OR_RETURN(terminal, RawTerminal::open());
      stream.send_size(terminal_size());
    }
    TerminalInput input(stream, person);
    outcome = SessionPump(context, stream, &input, terminal.get()).run();
  }
  if (!outcome) {
    return std::unexpected(std::move(outcome).error());
  }
  if (outcome->signal != 0) {
    return kExitSignalBase + outcome->signal;
  }
  if (outcome->left) {
    context.console.note(base::cat("left; the shell goes on: sandbox shell ", options.sandbox.id,
                                   options.sandbox.container.empty() ? "" : " --container ",
                                   options.sandbox.container,
                                   options.session.empty() ? "" : " --session ", options.session));
    return 0;
  }
  return outcome->end ? outcome->end->exit_code : kExitOwnError;
}

}  // namespace cli
