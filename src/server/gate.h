// The gate: what a request has to pass between its token and its handler. Whether the gateway has
// room for such work, and what the token is allowed. Loop thread only; nothing is kept but what it
// gives to be held while the request lasts.
#pragma once

#include "server/application.h"
#include "server/exchange.h"
#include "server/route.h"
#include "service/limiter.h"

namespace server {

// A body from which on an upload counts as heavy.
inline constexpr uint64_t kHeavyBodyBytesMin = uint64_t{1024} * 1024;

// What the request would cost.
Work work_of(const Route& route, const wire::http::Request& request);
// Whether its answer has no end of its own: a WebSocket, a stream, or something that is followed.
bool is_stream(const Route& route, const wire::http::Request& request);

struct Passed {
  service::Limiter::Held create;
  service::Limiter::Held stream;
};
// rate_limited, overloaded, body_too_large. The exchange tells its client what is left.
Result<Passed> pass_gate(Application& application, Exchange& exchange, const Route& route);

}  // namespace server
