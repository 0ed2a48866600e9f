// sessions start, list, get, kill, resize, rm: what is one request each.
#include <algorithm>

#include "cli/context.h"
#include "cli/session_target.h"
#include "cli/session_view.h"

namespace cli {

using wire::json::Object;

namespace {

constexpr int64_t kBytesPerMegabyte = int64_t{1024} * 1024;
constexpr int64_t kWaitSecondsMax = 300;  // of one request; longer waits ask again

Result<void> post(Context& context, const std::string& target, const Object& body) {
  const HttpRequest request{.method = "POST",
                            .target = target,
                            .headers = {{"Content-Type", "application/json"}},
                            .body = wire::json::serialize(body)};
  RETURN_IF_ERROR(context.api.call(request, Repeat::no));
  return {};
}

}  // namespace

Result<int> session_start(Context& context, const SessionStartOptions& options) {
  SessionStart start{.name = options.name, .with_input = options.command.read_input};
  if (options.log_limit_mb) {
    start.log_limit_bytes = *options.log_limit_mb * kBytesPerMegabyte;
  }
  ASSIGN_OR_RETURN(const auto session,
                   start_session(context, options.sandbox, options.command, start));
  RETURN_IF_ERROR(
      print_value(context, session, escape_for_terminal(field_text(session, "id")) + "\n"));
  return 0;
}

Result<int> session_list(Context& context, const SessionListOptions& options) {
  const std::string path = sandbox_target(options.sandbox, "/sessions");
  ASSIGN_OR_RETURN(const auto items, context.api.get_list(path, "", SIZE_MAX, 0));
  if (options.quiet) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "id")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, session_table(items, context.clock.wall())));
  return 0;
}

Result<int> session_get(Context& context, const SessionGetOptions& options) {
  const std::string target = session_target(options.sandbox, options.session);
  const auto end = context.clock.steady() + std::chrono::seconds(options.wait_sec);
  int64_t left = options.wait_sec;
  Progress progress(context.console, context.clock);
  while (true) {
    const int64_t wait_max = progress.visible() ? 1 : kWaitSecondsMax;
    const int wait = static_cast<int>(std::min(left, wait_max));
    ASSIGN_OR_RETURN(
        const auto session,
        context.api.get_object(wait > 0 ? base::cat(target, "?wait=", wait) : target, wait));
    left = std::chrono::duration_cast<std::chrono::seconds>(end - context.clock.steady()).count();
    if (left <= 0 || field_text(session, "state") != "running") {
      RETURN_IF_ERROR(
          print_value(context, session, session_details(session, context.clock.wall())));
      return 0;
    }
    progress.show(base::cat("the session runs, ", progress.elapsed_seconds(), " s"));
  }
}

Result<int> session_kill(Context& context, const SessionKillOptions& options) {
  RETURN_IF_ERROR(post(context, session_target(options.sandbox, options.session, "/kill"),
                       {{"signal", options.signal}}));
  return 0;
}

Result<int> session_resize(Context& context, const SessionResizeOptions& options) {
  RETURN_IF_ERROR(post(context, session_target(options.sandbox, options.session, "/resize"),
                       {{"cols", options.columns}, {"rows", options.rows}}));
  return 0;
}

Result<int> session_remove(Context& context, const SessionRemoveOptions& options) {
  int exit_code = 0;
  for (const auto& name : options.sessions) {
    const auto gone = context.api.remove(session_target(options.sandbox, name), 0);
    if (gone) {
      RETURN_IF_ERROR(context.console.write_out(escape_for_terminal(name) + "\n"));
      continue;
    }
    if (gone.error().code == base::ErrorCode::cancelled) {
      return std::unexpected(gone.error());
    }
    context.console.note(
        base::cat("error: ", base::to_string(gone.error().code), ": ", gone.error().message));
    exit_code = kExitOwnError;
  }
  return exit_code;
}

}  // namespace cli
