#include "server/answers_json.h"
#include "server/handlers.h"

namespace server {
namespace {

Task<Result<void>> set_drained(Application& application, Exchange& exchange, bool drained) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const std::string team(exchange.segment(0));
  CO_ASSIGN_OR_RETURN(const int64_t ending,
                      co_await application.sandboxes.set_drained(team, drained));
  exchange.note("team", team);
  exchange.note("ending", ending);
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(
               wire::json::Object{{"team", team}, {"drained", drained}, {"ending", ending}}));
}

}  // namespace

Task<Result<void>> get_quotas(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto overview, co_await application.sandboxes.admission().overview());
  co_return co_await exchange.answer_json(200, wire::json::serialize(quotas_json(overview)));
}

Task<Result<void>> drain_team(Application& application, Exchange& exchange) {
  return set_drained(application, exchange, true);
}

Task<Result<void>> undrain_team(Application& application, Exchange& exchange) {
  return set_drained(application, exchange, false);
}

}  // namespace server
