// Limits of one token, for admins.
#include "server/handlers.h"

namespace server {
namespace {

wire::json::Value given(const std::optional<int64_t>& limit) {
  return limit ? wire::json::Value(*limit) : wire::json::Value(nullptr);
}

// What is the token's own (null: the operator's), and what holds.
std::string limits_body(Application& application, const std::string& id,
                        const service::TokenLimits& own) {
  const auto holds = application.limiter.limits_of(id);
  constexpr int64_t kBytesPerMb = int64_t{1024} * 1024;
  return wire::json::serialize(wire::json::Object{
      {"token", id},
      {"requests_per_sec", given(own.requests_per_sec)},
      {"burst", given(own.burst)},
      {"concurrent_creates", given(own.concurrent_creates)},
      {"concurrent_streams", given(own.concurrent_streams)},
      {"body_mb", given(own.body_mb)},
      {"effective", wire::json::Object{{"requests_per_sec", holds.requests_per_sec},
                                       {"burst", holds.burst},
                                       {"concurrent_creates", holds.creates},
                                       {"concurrent_streams", holds.streams},
                                       {"body_mb", holds.body_bytes / kBytesPerMb}}}});
}

}  // namespace

Task<Result<void>> get_token_limits(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const std::string& id = exchange.segment(0);
  CO_ASSIGN_OR_RETURN(const auto own, co_await application.token_limits.find(id));
  co_return co_await exchange.answer_json(200, limits_body(application, id, own));
}

Task<Result<void>> put_token_limits(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const std::string& id = exchange.segment(0);
  exchange.note("token", service::audit_text(id));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto own, co_await application.token_limits.put(id, std::move(body)));
  exchange.note("requests_per_sec", given(own.requests_per_sec));
  exchange.note("concurrent_creates", given(own.concurrent_creates));
  co_return co_await exchange.answer_json(200, limits_body(application, id, own));
}

Task<Result<void>> delete_token_limits(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("token", service::audit_text(exchange.segment(0)));
  CO_RETURN_IF_ERROR(co_await application.token_limits.remove(exchange.segment(0)));
  co_return co_await exchange.answer_empty(204);
}

}  // namespace server
