#include "server/answers_json.h"
#include "server/handlers.h"

namespace server {

Task<Result<void>> list_replicas(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto replicas, co_await application.replicas.list());
  wire::json::Array items;
  for (const service::Replica& replica : replicas) {
    items.emplace_back(wire::json::Object{{"id", replica.id},
                                          {"address", replica.address},
                                          {"version", replica.version},
                                          {"started_at", time_json(replica.started_ms)},
                                          {"heartbeat_at", time_json(replica.heartbeat_ms)},
                                          {"draining", replica.draining},
                                          {"connections", replica.connections},
                                          {"answers", replica.id == application.replicas.id()}});
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), ""));
}

}  // namespace server
