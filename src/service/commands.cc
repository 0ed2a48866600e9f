#include "service/commands.h"

namespace service {

std::string_view to_string(CommandKind kind) {
  switch (kind) {
    case CommandKind::run:
      return "run";
    case CommandKind::exec:
      return "exec";
    case CommandKind::stream:
      return "stream";
    case CommandKind::session:
      return "session";
    case CommandKind::terminal:
      return "terminal";
  }
  return "";
}

Commands::Running::Running(Commands& commands, LivePtr live, Caller caller, CommandStart start)
    : commands_(commands),
      live_(std::move(live)),
      caller_(std::move(caller)),
      start_(std::move(start)),
      began_(std::chrono::steady_clock::now()) {
  ++live_->running_commands;
  commands_.began(*live_, caller_, start_);
}

void Commands::Running::end(int status, std::optional<int> exit_code) {
  if (!live_) {
    return;
  }
  const LivePtr live = std::exchange(live_, nullptr);
  --live->running_commands;
  const auto took = std::chrono::steady_clock::now() - began_;
  commands_.ended(*live, caller_, start_,
                  {.status = status,
                   .exit_code = exit_code,
                   .duration_ms = std::chrono::duration_cast<base::Milliseconds>(took).count()});
}

void Commands::began(const Live& live, const Caller& caller, const CommandStart& start) {
  ++started_.at(static_cast<size_t>(start.kind));
  context_.log.debug("command", {{"kind", to_string(start.kind)},
                                 {"sandbox", live.row.id},
                                 {"subject", caller.subject},
                                 {"request_id", start.request_id},
                                 {"user", start.user},
                                 {"argv", start.argv_text}});
}

void Commands::ended(const Live& live, const Caller& /*caller*/, const CommandStart& start,
                     const CommandEnd& end) {
  context_.telemetry.command_ended(static_cast<size_t>(start.kind),
                                   base::Milliseconds(end.duration_ms));
  context_.log.debug("command ended", {{"kind", to_string(start.kind)},
                                       {"sandbox", live.row.id},
                                       {"request_id", start.request_id},
                                       {"status", end.status},
                                       {"exit_code", end.exit_code.value_or(-1)},
                                       {"ms", end.duration_ms}});
}

}  // namespace service
