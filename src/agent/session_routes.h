// /sessions and /terminal of api/agent-protocol.md: requests to calls of Sessions and back.
// Coroutines of their connection.
#pragma once

#include "agent/sessions.h"
#include "net/http.h"

namespace agent {

// One request to one of them.
struct SessionCall {
  Agent& agent;
  Sessions& sessions;
  net::Stream& stream;
  net::HttpReader& reader;
  const wire::http::Request& request;
};

bool is_session_route(std::string_view path);
// Errors before anything was written are for the caller to answer; connection_closed and cancelled
// mean that the connection is of no more use.
Task<Result<void>> serve_session_route(SessionCall call);

}  // namespace agent
