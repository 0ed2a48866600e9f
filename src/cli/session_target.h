// Sessions of a sandbox as the API names them, and what starts one: shared by exec, run, shell and
// the sessions commands.
#pragma once

#include "cli/context.h"
#include "cli/raw_terminal.h"

namespace cli {

// "/sandboxes/ID/sessions/SESSION" + suffix, encoded. SESSION is an id or a name.
std::string session_target(const SandboxTarget& sandbox, std::string_view session,
                           std::string_view suffix = "");

struct SessionStart {
  std::string name;  // of this start alone, when `unique`
  bool unique = false;
  bool with_input = false;
  bool followed = false;  // from its beginning, at once
  std::optional<int64_t> log_limit_bytes;
};
// Starts the command. With a unique name it runs once even if the answer to the request gets lost:
// the session is then found by it.
Result<wire::json::Object> start_session(Context& context, const SandboxTarget& sandbox,
                                         const CommandOptions& command, const SessionStart& start);
// What becomes of what a command has left running.
enum class Background { ends, lives_on };
// Forgets it, whatever signal is pending, and ends it, unless it has ended and its background lives
// on; an error is given back for information.
Result<void> remove_session(Context& context, const SandboxTarget& sandbox,
                            const std::string& session, Background background);

}  // namespace cli
