#include "server/command_start.h"
#include "server/handlers.h"
#include "server/relay_sessions.h"
#include "server/websocket.h"
#include "service/run_request.h"

namespace server {
namespace {

using service::CommandKind;
using service::Commands;

// The agent's path of the session in the request's address.
Result<std::string> session_target(const Exchange& exchange, std::string_view ending) {
  const std::string& id = exchange.segment(1);
  if (!service::is_session_name(id)) {
    return base::fail(ErrorCode::not_found, "session '", id, "' does not exist");
  }
  return base::cat("/sessions/", id, ending);
}

Result<int64_t> offset_of(const Exchange& exchange) {
  return exchange.integer_parameter("offset", 0, INT64_MAX, 0);
}

// Appends `name=VALUE` to a query where the request has it: what is absent the agent chooses.
Result<void> pass_number(const Exchange& exchange, std::string_view name, int64_t least,
                         int64_t most, std::string& query) {
  ASSIGN_OR_RETURN(const auto given, exchange.request().parameter(name));
  ASSIGN_OR_RETURN(const int64_t value, exchange.integer_parameter(name, least, most, least));
  if (given) {
    query += base::cat(query.empty() ? "?" : "&", name, "=", value);
  }
  return {};
}

// The log of the session at `path`, as the request's parameters ask.
Task<Result<void>> answer_log(Application& application, Exchange& exchange, std::string path) {
  CO_ASSIGN_OR_RETURN(const int64_t offset, offset_of(exchange));
  CO_ASSIGN_OR_RETURN(const bool follow, exchange.flag_parameter("follow"));
  CO_ASSIGN_OR_RETURN(const auto stream, exchange.request().parameter("stream"));
  if (stream && *stream != "both" && *stream != "stdout" && *stream != "stderr") {
    co_return base::fail_field("stream", "'stream' must be both, stdout or stderr");
  }
  CO_ASSIGN_OR_RETURN(const auto encoding, exchange.request().parameter("encoding"));
  if (encoding && *encoding != "utf8" && *encoding != "base64") {
    co_return base::fail_field("encoding", "'encoding' must be utf8 or base64");
  }
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  if (follow) {
    exchange.mark_endless();
  }
  co_return co_await relay_session_log(
      application, exchange, use.live(),
      base::cat(path, "/logs?offset=", offset, "&follow=", follow ? "true" : "false",
                "&stream=", stream.value_or("both"), "&encoding=", encoding.value_or("utf8")));
}

// A small JSON body, checked, to the session.
Task<Result<void>> steer_session(Application& application, Exchange& exchange,
                                 std::string_view ending, Result<void> (*check)(std::string_view)) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container"}));
  CO_ASSIGN_OR_RETURN(auto target, session_target(exchange, ending));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_RETURN_IF_ERROR(check(body));
  co_return co_await relay_session_call(application, exchange, use.live(), target, std::move(body),
                                        kAgentPatience);
}

}  // namespace

Task<Result<void>> start_session(Application& application, Exchange& exchange) {
  return start_command(application, exchange, CommandKind::session, service::parse_session,
                       relay_session_start);
}

Task<Result<void>> list_sessions(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container"}));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_session_call(application, exchange, use.live(), "/sessions", "",
                                        kAgentPatience);
}

Task<Result<void>> get_session(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container", "wait"}));
  CO_ASSIGN_OR_RETURN(const int64_t wait,
                      exchange.integer_parameter("wait", 0, kWaitSecondsMax, 0));
  CO_ASSIGN_OR_RETURN(auto target, session_target(exchange, base::cat("?wait=", wait)));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_session_call(application, exchange, use.live(), target, "",
                                        kAgentPatience + std::chrono::seconds(wait));
}

Task<Result<void>> delete_session(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container", "keep_background"}));
  CO_ASSIGN_OR_RETURN(const bool lives_on, exchange.flag_parameter("keep_background"));
  CO_ASSIGN_OR_RETURN(auto target, session_target(exchange, lives_on ? "?keep_background=1" : ""));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_session_call(application, exchange, use.live(), target, "",
                                        kAgentPatience);
}

Task<Result<void>> session_logs(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(
      exchange.check_parameters({"container", "offset", "follow", "stream", "encoding"}));
  CO_ASSIGN_OR_RETURN(auto path, session_target(exchange, ""));
  co_return co_await answer_log(application, exchange, std::move(path));
}

Task<Result<void>> sandbox_logs(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(
      exchange.check_parameters({"container", "offset", "follow", "stream", "encoding"}));
  co_return co_await answer_log(application, exchange, "/sessions/main");
}

Task<Result<void>> session_stdin(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container", "eof", "offset"}));
  CO_ASSIGN_OR_RETURN(const bool eof, exchange.flag_parameter("eof"));
  CO_ASSIGN_OR_RETURN(const auto given, exchange.request().parameter("offset"));
  CO_ASSIGN_OR_RETURN(const int64_t offset, offset_of(exchange));
  CO_ASSIGN_OR_RETURN(auto target, session_target(exchange, base::cat("/stdin?eof=", eof ? 1 : 0)));
  if (given) {
    target += base::cat("&offset=", offset);
  }
  CO_ASSIGN_OR_RETURN(BodySource body, BodySource::open(exchange));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_session_input(application, exchange, use.live(), body, target);
}

Task<Result<void>> kill_session(Application& application, Exchange& exchange) {
  return steer_session(application, exchange, "/kill", service::parse_kill);
}

Task<Result<void>> resize_session(Application& application, Exchange& exchange) {
  return steer_session(application, exchange, "/resize", service::parse_resize);
}

Task<Result<void>> attach_session(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container", "offset", "ticket"}));
  CO_RETURN_IF_ERROR(check_handshake(exchange.request()));
  std::string query;
  CO_RETURN_IF_ERROR(pass_number(exchange, "offset", 0, INT64_MAX, query));
  CO_ASSIGN_OR_RETURN(auto target, session_target(exchange, base::cat("/attach", query)));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  exchange.mark_endless();
  co_return co_await relay_websocket(application, exchange, use.live(), target);
}

Task<Result<void>> open_terminal(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(
      exchange.check_parameters({"container", "cols", "rows", "session", "offset", "ticket"}));
  CO_RETURN_IF_ERROR(check_handshake(exchange.request()));
  CO_ASSIGN_OR_RETURN(const auto session, exchange.request().parameter("session"));
  const std::string name = session.value_or("terminal");
  exchange.note("session", service::audit_text(name));
  if (!service::is_session_name(name)) {
    co_return base::fail_field("session", "'session' is not a session's name");
  }
  std::string query = base::cat("?session=", name);
  CO_RETURN_IF_ERROR(pass_number(exchange, "cols", 1, service::kTerminalSideMax, query));
  CO_RETURN_IF_ERROR(pass_number(exchange, "rows", 1, service::kTerminalSideMax, query));
  CO_RETURN_IF_ERROR(pass_number(exchange, "offset", 0, INT64_MAX, query));
  CO_ASSIGN_OR_RETURN(auto use, application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  exchange.mark_endless();
  Commands::Running command(
      application.commands, use.live(), exchange.caller(),
      {.kind = CommandKind::terminal, .argv_text = name, .request_id = exchange.request_id()});
  auto done =
      co_await relay_websocket(application, exchange, use.live(), base::cat("/terminal", query));
  command.end(exchange.status(), std::nullopt);
  co_return done;
}

}  // namespace server
