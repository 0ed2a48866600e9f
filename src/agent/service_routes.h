// /service of api/agent-protocol.md. Coroutines of their connection.
#pragma once

#include "agent/service.h"
#include "net/http.h"

namespace agent {

bool is_service_route(std::string_view path);
net::Task<Result<void>> serve_service_route(Service& service, net::Stream& stream,
                                            const wire::http::Request& request);

}  // namespace agent
