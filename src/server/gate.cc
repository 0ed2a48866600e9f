#include "server/gate.h"

namespace server {
namespace {

using service::Limiter;
using wire::http::BodyKind;

bool is_create(const Route& route) { return route.event == service::audit_event::kCreate; }

bool is_inside(std::string_view pattern) {
  return pattern.starts_with("/sandboxes/{id}/") || pattern.starts_with("/api/v1/sandboxes/{id}/");
}

bool is_large(const wire::http::Request& request) {
  return request.body == BodyKind::chunked ||
         (request.body == BodyKind::length && request.content_length >= kHeavyBodyBytesMin);
}

Result<void> limit_body(Application& application, Exchange& exchange) {
  const int64_t most = application.limiter.body_bytes_max(exchange.caller());
  if (most == 0 || exchange.request().body == BodyKind::none) {
    return {};
  }
  const auto limit = static_cast<uint64_t>(most);
  if (exchange.request().body == BodyKind::length && exchange.request().content_length > limit) {
    application.limiter.count_refused(Limiter::Kind::body);
    exchange.close_after();
    return base::fail(ErrorCode::body_too_large, "the token's bodies have at most ", most,
                      " bytes");
  }
  exchange.reader().decoder().limit(limit);
  return {};
}

}  // namespace

Work work_of(const Route& route, const wire::http::Request& request) {
  if (route.scope == service::Scope::open || route.scope == service::Scope::metrics) {
    return Work::health;
  }
  const bool makes = is_create(route) || route.event == "image.add" || route.event == "build.start";
  if (makes || (route.event == "file.write" && is_large(request))) {
    return Work::heavy;
  }
  // Deleting a sandbox makes room.
  return is_inside(route.pattern) || route.event == service::audit_event::kDelete ? Work::inside
                                                                                  : Work::other;
}

bool is_stream(const Route& route, const wire::http::Request& request) {
  if (route.is_websocket || route.event == "file.watch" || route.event.starts_with("stream.")) {
    return true;
  }
  // A broken parameter is the handler's to refuse.
  if (!request.query.contains("follow=")) {
    return false;
  }
  const auto follow = request.parameter("follow");
  return follow && *follow && (**follow == "1" || **follow == "true" || (*follow)->empty());
}

Result<Passed> pass_gate(Application& application, Exchange& exchange, const Route& route) {
  const Work work = work_of(route, exchange.request());
  if (work == Work::health) {
    return Passed{};
  }
  ASSIGN_OR_RETURN(const auto left, application.limiter.take(exchange.caller()));
  exchange.set_rate_left(left);
  RETURN_IF_ERROR(application.overload.check(work));
  RETURN_IF_ERROR(limit_body(application, exchange));
  Passed passed;
  if (is_create(route)) {
    ASSIGN_OR_RETURN(passed.create,
                     application.limiter.hold(exchange.caller(), Limiter::Kind::creates));
  }
  if (is_stream(route, exchange.request())) {
    ASSIGN_OR_RETURN(passed.stream,
                     application.limiter.hold(exchange.caller(), Limiter::Kind::streams));
  }
  return passed;
}

}  // namespace server
