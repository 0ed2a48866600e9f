#include "server/answers_json.h"
#include "server/handlers.h"
#include "server/openapi.h"

namespace server {

Task<Result<void>> healthz(Application& /*application*/, Exchange& exchange) {
  co_return co_await exchange.answer_json(
      200,
      wire::json::serialize(wire::json::Object{{"status", "ok"}, {"version", SANDBOX_VERSION}}));
}

Task<Result<void>> readyz(Application& application, Exchange& exchange) {
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
  co_return co_await exchange.answer_text(
      200, "text/plain; version=0.0.4; charset=utf-8",
      application.metrics.text(application.sandboxes.count_by_state(),
                               application.sandboxes.creates(), application.runs));
}

Task<Result<void>> openapi(Application& /*application*/, Exchange& exchange) {
  co_return co_await exchange.answer_json(200, std::string(openapi_json()));
}

Task<Result<void>> me(Application& /*application*/, Exchange& exchange) {
  const service::Caller& caller = exchange.caller();
  wire::json::Array scopes;
  if (caller.may_use_sandboxes) {
    scopes.emplace_back("sandboxes");
  }
  if (caller.may_read_metrics) {
    scopes.emplace_back("metrics");
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"subject", caller.subject},
                                                    {"team", caller.team},
                                                    {"role", caller.is_admin ? "admin" : "member"},
                                                    {"scopes", std::move(scopes)}}));
}

Task<Result<void>> not_built(Application& /*application*/, Exchange& exchange) {
  co_return base::fail(ErrorCode::not_supported, exchange.request().method, " ",
                       "on this route is documented but not supported yet");
}

}  // namespace server
