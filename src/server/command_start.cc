#include "server/command_start.h"

namespace server {

using service::Commands;

Task<Result<void>> start_command(Application& application, Exchange& exchange,
                                 service::CommandKind kind, ParseCommand parse,
                                 RelayCommand relay) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container"}));
  CO_ASSIGN_OR_RETURN(auto use, application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kRunBodyBytesMax));
  CO_ASSIGN_OR_RETURN(auto request, parse(std::move(body)));
  exchange.choose_container(std::move(request.container));
  exchange.audit().details = std::move(request.audit);
  Commands::Running command(application.commands, use.live(), exchange.caller(),
                            {.kind = kind,
                             .argv_text = std::move(request.argv_text),
                             .user = std::move(request.user),
                             .request_id = exchange.request_id()});
  auto done = co_await relay(application, exchange, use.live(), std::move(request.body));
  command.end(exchange.status(), exchange.exit_code());
  co_return done;
}

}  // namespace server
