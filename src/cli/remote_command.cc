#include "cli/remote_command.h"

#include <signal.h>
#include <unistd.h>

#include "cli/session_pump.h"
#include "cli/session_target.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Object;

namespace {

// Where our own input comes from.
struct InputPlan {
  bool read = false;
  EarlyInput early;
};

Result<InputPlan> plan_input(const CommandOptions& options) {
  InputPlan plan;
  if (!options.read_input) {
    return plan;
  }
  if (options.terminal) {
    plan.read = true;
    return plan;
  }
  // A person at a terminal is not made to type an end of file unless asked for.
  plan.read = options.interactive || ::isatty(STDIN_FILENO) != 1;
  if (plan.read) {
    ASSIGN_OR_RETURN(plan.early, read_early_input());
    plan.read = !plan.early.ended || !plan.early.bytes.empty();
  }
  return plan;
}

// A started command and everything that goes between it and us.
class RemoteCommand {
 public:
  RemoteCommand(Context& context, const SandboxTarget& sandbox, const std::string& session)
      : context_(context),
        target_(session_target(sandbox, session)),
        output_(context.console),
        stream_(context, target_ + "/attach", 0, output_) {}

  Result<PumpOutcome> run(const CommandOptions& options, InputPlan plan, SandboxAfter after) {
    std::unique_ptr<RawTerminal> terminal;
    std::unique_ptr<SessionInput> input;
    if (options.terminal && plan.read) {
      const bool person = ::isatty(STDIN_FILENO) == 1;
      if (person) {
        ASSIGN_OR_RETURN(terminal, RawTerminal::open());
      }
      input = std::make_unique<TerminalInput>(stream_, person);
    } else if (plan.read) {
      input = std::make_unique<PipeInput>(context_, target_, std::move(plan.early),
                                          PipeInput::Writer::only);
    }
    SessionPump pump(context_, stream_, input.get(), terminal.get());
    if (after == SandboxAfter::stays) {
      pump.cancel_on_signal(target_);
    }
    return pump.run();
  }

  [[nodiscard]] uint64_t lost_bytes() const { return stream_.lost_bytes(); }

  // The stream tells the code only; what killed it, the session's status does.
  SessionEnd explain(SessionEnd end) {
    constexpr int kKilled = 128 + 9;
    if (end.exit_code != kExitTimedOut && end.exit_code != kKilled) {
      return end;
    }
    const auto session = context_.api.get_object(target_);
    return session ? parse_session_end(*session) : end;
  }

 private:
  Context& context_;
  std::string target_;
  OutputQueue output_;
  AttachStream stream_;
};

Result<int> conclude(Context& context, RemoteCommand& command, const PumpOutcome& outcome) {
  if (outcome.signal != 0) {
    return kExitSignalBase + outcome.signal;
  }
  if (!outcome.end) {  // "~." on its terminal
    return kExitSignalBase + SIGINT;
  }
  if (command.lost_bytes() > 0) {
    return fail(ErrorCode::internal, command.lost_bytes(),
                " bytes of the output came faster than they were read and are lost");
  }
  const SessionEnd end = command.explain(*outcome.end);
  if (end.oom_killed) {
    context.console.note("the command was killed: the sandbox is out of memory");
  }
  if (end.timed_out) {
    context.console.note("the command timed out");
  }
  return end.exit_code;
}

}  // namespace

Result<int> run_command(Context& context, const SandboxTarget& sandbox,
                        const CommandOptions& options, SandboxAfter after) {
  ASSIGN_OR_RETURN(auto plan, plan_input(options));
  ASSIGN_OR_RETURN(const auto started, start_session(context, sandbox, options,
                                                     {.name = base::new_id(context.random, "exec"),
                                                      .unique = true,
                                                      .with_input = plan.read,
                                                      .followed = true}));
  const std::string session = field_text(started, "id");
  RemoteCommand command(context, sandbox, session);
  auto outcome = command.run(options, std::move(plan), after);
  Result<int> code = 0;
  if (outcome) {
    code = conclude(context, command, *outcome);
  } else {
    code = std::unexpected(outcome.error());
  }
  if (after == SandboxAfter::stays) {
    // Who ended by itself leaves its background children running, as any command does. Not there
    // any more is what is wanted.
    const bool ended = outcome && outcome->end && outcome->signal == 0;
    (void)remove_session(context, sandbox, session,
                         ended ? Background::lives_on : Background::ends);
  }
  return code;
}

}  // namespace cli
