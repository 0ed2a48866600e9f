// POST /streams/helper: a helper whose standard input and output are the connection itself, so that
// its bytes pass through nobody. A coroutine of its connection, which is of no more use afterwards.
#pragma once

#include <string_view>

#include "agent/agent.h"
#include "net/http.h"

namespace agent {

inline constexpr std::string_view kStreamProtocol = "sandbox-stream";

// The 101 of every stream.
net::Task<Result<void>> switch_to_stream(net::Stream& stream);

// Ends with the helper; where the client is gone altogether or its time is over, with its whole
// tree. Errors before the 101 are for the caller to answer.
net::Task<Result<void>> run_helper_stream(Agent& agent, net::Stream& stream,
                                          net::HttpReader& reader,
                                          const wire::http::Request& request);

}  // namespace agent
