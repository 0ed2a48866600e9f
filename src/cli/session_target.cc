#include "cli/session_target.h"

#include <stdlib.h>

#include <algorithm>

#include "cli/variables.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Array;
using wire::json::Object;

namespace {

constexpr int kStartAttemptsMax = 4;
constexpr int kFirstPauseMilliseconds = 200;
constexpr int kStartSilenceSeconds = 20;  // the agent answers as soon as the command runs
// A courtesy on the way out; the sandbox's end clears up what it does not reach.
constexpr int kRemoveSilenceSeconds = 10;

Result<Object> start_body(const CommandOptions& command, const SessionStart& start) {
  Array argv;
  for (const auto& word : command.argv) {
    argv.emplace_back(word);
  }
  Object body{{"argv", std::move(argv)}, {"stdin", start.with_input}};
  ASSIGN_OR_RETURN(auto variables, read_variables(command.env, command.env_files));
  if (command.terminal) {
    const TerminalSize size = terminal_size();
    body["tty"] = Object{{"cols", size.columns}, {"rows", size.rows}};
    // Programs draw for the terminal that is looked at.
    const char* kind = ::getenv("TERM");
    if (kind != nullptr && !variables.contains("TERM")) {
      variables["TERM"] = kind;
    }
  }
  if (!variables.empty()) {
    body["env"] = std::move(variables);
  }
  const std::pair<std::string_view, const std::string&> texts[] = {
      {"cwd", command.cwd}, {"user", command.user}, {"name", start.name}};
  for (const auto& [name, value] : texts) {
    if (!value.empty()) {
      body[name] = value;
    }
  }
  if (command.timeout_sec) {
    body["timeout_sec"] = *command.timeout_sec;
  }
  if (start.followed) {
    body["followed"] = true;
  }
  if (start.log_limit_bytes) {
    body["log_limit_bytes"] = *start.log_limit_bytes;
  }
  return body;
}

}  // namespace

std::string session_target(const SandboxTarget& sandbox, std::string_view session,
                           std::string_view suffix) {
  return sandbox_target(sandbox, base::cat("/sessions/", encode_segment(session), suffix));
}

Result<Object> start_session(Context& context, const SandboxTarget& sandbox,
                             const CommandOptions& command, const SessionStart& start) {
  ASSIGN_OR_RETURN(const auto body, start_body(command, start));
  const HttpRequest request{.method = "POST",
                            .target = sandbox_target(sandbox, "/sessions"),
                            .headers = {{"Content-Type", "application/json"}},
                            .body = wire::json::serialize(body),
                            .silence_seconds_max = kStartSilenceSeconds,
                            .fresh_connection = true,
                            // Whoever has to end it needs its id.
                            .ignore_signals = true};
  for (int attempt = 1;; ++attempt) {
    auto answer = context.api.call_json(request, Repeat::no);
    if (answer) {
      if (!answer->is_object() || field_text(answer->get_object(), "id").empty()) {
        return fail(ErrorCode::internal, "the answer to the start of a session has no id");
      }
      return std::move(answer->get_object());
    }
    const bool passing = is_passing(answer.error()) || answer.error().code == ErrorCode::conflict;
    if (!start.unique || !passing || attempt == kStartAttemptsMax) {
      return std::unexpected(std::move(answer).error());
    }
    RETURN_IF_ERROR(context.interrupt.sleep_ms(kFirstPauseMilliseconds << attempt));
    // The request may have arrived although its answer did not.
    if (auto session = context.api.get_object(session_target(sandbox, start.name))) {
      return session;
    }
  }
}

Result<void> remove_session(Context& context, const SandboxTarget& sandbox,
                            const std::string& session, Background background) {
  const std::string_view query = background == Background::lives_on ? "?keep_background=1" : "";
  const HttpRequest request{.method = "DELETE",
                            .target = session_target(sandbox, session, query),
                            .silence_seconds_max = kRemoveSilenceSeconds,
                            .ignore_signals = true};
  RETURN_IF_ERROR(context.api.call(request, Repeat::no));
  return {};
}

}  // namespace cli
