// /streams of api/agent-protocol.md: connections that become plain byte streams into the sandbox:
// to its ports and sockets, from them, and to a helper's standard input and output. Coroutines of
// their connection. Bounds: kStreamsMax at once, what net::pump_both and Listeners hold.
#pragma once

#include "agent/agent.h"
#include "agent/listeners.h"
#include "net/http.h"

namespace agent {

inline constexpr size_t kStreamsMax = 256;

// What the streams of one sandbox share.
struct Streams {
  Listeners listeners;
  size_t open = 0;
};

struct StreamCall {
  Agent& agent;
  Streams& streams;
  net::Stream& stream;
  net::HttpReader& reader;
  const wire::http::Request& request;
};

bool is_stream_route(std::string_view path);
// Errors before anything was written are for the caller to answer; connection_closed and cancelled
// mean that the connection is of no more use, as it is after each that became a stream.
net::Task<Result<void>> serve_stream_route(StreamCall call);

}  // namespace agent
