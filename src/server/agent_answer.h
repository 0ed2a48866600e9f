// How an agent's answer goes to the client. Of it only the status, the length and a fixed list of
// headers are taken over; when it ends inside a body, so does the client's connection. Buffers at
// most 64 KiB. Loop thread only.
#pragma once

#include "net/stream_pump.h"
#include "server/agent_request.h"
#include "server/content_coding.h"

namespace server {

// Any JSON, by length or in chunks. An error of the agent is of this form on every route.
Task<Result<void>> relay_any_json(Exchange& exchange, AgentChannel& channel,
                                  const service::Live& live, const wire::http::Response& response);

// `head` without its framing, then the body: by length in one write where it is small, moved inside
// the kernel where it is large, in chunks where the agent sent chunks. `patience` bounds each wait;
// `look` is shown the first bytes of a body that has a length.
using LookAtBody = void (*)(Exchange& exchange, std::string_view first);
Task<Result<void>> relay_bytes(Exchange& exchange, AgentChannel& channel,
                               const wire::http::Response& response, wire::http::HeadBuilder head,
                               base::Milliseconds patience = kWritePatience,
                               LookAtBody look = nullptr);

// The same with a coding other than identity and in chunks, compressed piece by piece as it comes.
Task<Result<void>> relay_coded(Exchange& exchange, AgentChannel& channel,
                               const wire::http::Response& response, wire::http::HeadBuilder head,
                               Coding coding);

// Answers 101 with `head`; from then on the client's connection and the agent's belong to each
// other, inside the kernel where bytes are many. Returns once both directions have ended.
Task<Result<void>> join_to_agent(Exchange& exchange, AgentChannel& channel,
                                 wire::http::HeadBuilder head, net::HalfClose half_close);

inline constexpr int kFirstErrorStatus = 400;

}  // namespace server
