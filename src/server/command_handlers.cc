#include "server/answers_json.h"
#include "server/command_start.h"
#include "server/handlers.h"
#include "server/relay_exec.h"
#include "server/relay_run.h"
#include "service/run_request.h"

namespace server {

using service::CommandKind;
using service::Commands;

Task<Result<void>> sandbox_activity(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const service::LivePtr live =
      application.sandboxes.find_live(exchange.caller(), exchange.segment(0));
  if (!live) {
    co_return base::fail(ErrorCode::not_found, "sandbox '", exchange.segment(0),
                         "' does not exist");
  }
  auto activity = co_await application.sandboxes.activity(live);
  if (!activity) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, activity.error()));
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(
               wire::json::Object{{"last_activity_at", time_json(live->row.last_activity_ms)},
                                  {"lease_expires_at", time_json(live->row.lease_expires_ms)},
                                  {"running_commands", activity->running_commands},
                                  {"sessions", activity->sessions}}));
}

Task<Result<void>> run_command(Application& application, Exchange& exchange) {
  return start_command(application, exchange, CommandKind::run, service::parse_run, relay_run);
}

Task<Result<void>> exec_command(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(auto use, application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(BodySource body, BodySource::open(exchange));
  std::string input;
  CO_ASSIGN_OR_RETURN(auto line, co_await read_exec_line(body, input));
  CO_ASSIGN_OR_RETURN(auto request, service::parse_exec(std::move(line)));
  exchange.audit().details = std::move(request.audit);
  Commands::Running command(application.commands, use.live(), exchange.caller(),
                            {.kind = CommandKind::exec,
                             .argv_text = std::move(request.argv_text),
                             .user = std::move(request.user),
                             .request_id = exchange.request_id()});
  auto done = co_await relay_exec(application, exchange, use.live(), body,
                                  base::cat(request.body, "\n", input));
  command.end(exchange.status(), exchange.exit_code());
  co_return done;
}

}  // namespace server
