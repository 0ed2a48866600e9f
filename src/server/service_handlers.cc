#include "server/answers_json.h"
#include "server/figures.h"
#include "server/handlers.h"
#include "server/openapi.h"

namespace server {

Task<Result<void>> healthz(Application& /*application*/, Exchange& exchange) {
  co_return co_await exchange.answer_json(
      200,
      wire::json::serialize(wire::json::Object{{"status", "ok"}, {"version", SANDBOX_VERSION}}));
}

Task<Result<void>> readyz(Application& application, Exchange& exchange) {
  if (application.draining) {
    co_return base::fail(ErrorCode::draining, "the gateway is about to stop");
  }
  auto checked = co_await application.sandboxes.check();
  if (!checked) {
    Error error = std::move(checked).error();
    error.code = ErrorCode::unavailable;
    co_return std::unexpected(std::move(error));
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"status", "ready"}}));
}

Task<Result<void>> metrics(Application& application, Exchange& exchange) {
  const auto quotas = co_await application.sandboxes.admission().overview();
  co_return co_await exchange.answer_text(200, "text/plain; version=0.0.4; charset=utf-8",
                                          figures_text(application, quotas ? &*quotas : nullptr));
}

Task<Result<void>> openapi(Application& /*application*/, Exchange& exchange) {
  co_return co_await exchange.answer_json(200, std::string(openapi_json()));
}

Task<Result<void>> make_ticket(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  if (!body.empty()) {
    CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
    CO_RETURN_IF_ERROR(wire::json::Reader(object).finish());
  }
  CO_ASSIGN_OR_RETURN(const auto ticket, co_await application.tickets.issue(exchange.caller()));
  co_return co_await exchange.answer_json(
      201, wire::json::serialize(wire::json::Object{{"ticket", ticket.secret},
                                                    {"expires_at", time_json(ticket.expires_ms)}}));
}

Task<Result<void>> not_built(Application& /*application*/, Exchange& exchange) {
  co_return base::fail(ErrorCode::not_supported, exchange.request().method, " ",
                       "on this route is documented but not supported yet");
}

}  // namespace server
