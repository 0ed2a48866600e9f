#include "server/relay_sessions.h"

#include "server/agent_answer.h"
#include "server/websocket.h"

namespace server {
namespace {

using wire::http::HeadBuilder;
using wire::http::Response;

constexpr std::string_view kRecords = "application/x-ndjson";

// The agent knows no HEAD of these; its answer's body is left where it is.
std::string agent_method(const Exchange& exchange) {
  const std::string& method = exchange.request().method;
  return method == "HEAD" ? "GET" : method;
}

Task<Result<void>> relay_log(Exchange& exchange, AgentChannel& channel, const service::Live& live,
                             const Response& response) {
  if (response.status >= kFirstErrorStatus) {
    co_return co_await relay_any_json(exchange, channel, live, response);
  }
  HeadBuilder head = exchange.start_head(response.status);
  const std::string* type = response.find("content-type");
  if (type != nullptr && *type == kRecords) {
    head.add("content-type", kRecords);
  } else {
    head.add("content-type", "application/octet-stream").add("content-disposition", "attachment");
  }
  for (const std::string_view name : {"X-Log-Start-Offset", "X-Log-End-Offset"}) {
    if (const std::string* offset = response.find(base::lower(name))) {
      if (!base::parse_number<uint64_t>(*offset)) {
        co_return base::fail(ErrorCode::agent_failed, "its ", name, " is broken");
      }
      head.add(name, *offset);
    }
  }
  co_return co_await relay_bytes(exchange, channel, response, std::move(head), kStreamPatience);
}

HeadBuilder upgrade_head(const Exchange& exchange, const Handshake& handshake) {
  HeadBuilder head = exchange.start_head(kSwitchingProtocols);
  head.add("connection", "Upgrade").add("upgrade", "websocket");
  head.add("sec-websocket-accept", handshake.accept);
  if (handshake.with_subprotocol) {
    head.add("sec-websocket-protocol", kSubprotocol);
  }
  return head;
}

Task<Result<void>> relay_upgrade(Exchange& exchange, AgentChannel& channel,
                                 const service::Live& live, const Response& response) {
  if (response.status != kSwitchingProtocols) {
    co_return co_await relay_any_json(exchange, channel, live, response);
  }
  CO_ASSIGN_OR_RETURN(const Handshake handshake, check_handshake(exchange.request()));
  co_return co_await join_to_agent(exchange, channel, upgrade_head(exchange, handshake),
                                   net::HalfClose::ends_both);
}

}  // namespace

Task<Result<void>> relay_session_call(Application& application, Exchange& exchange, LivePtr live,
                                      const std::string& target, std::string body,
                                      base::Milliseconds patience) {
  const std::string method = agent_method(exchange);
  HeadBuilder head = agent_head(exchange, method, target);
  if (!body.empty()) {
    head.add("content-type", "application/json").add_length(body.size());
  }
  return ask_agent(application, exchange, std::move(live),
                   {.method = method,
                    .head = head.finish(),
                    .body = std::move(body),
                    .patience = patience,
                    .client_cancels = true},
                   relay_any_json);
}

Task<Result<void>> relay_session_start(Application& application, Exchange& exchange, LivePtr live,
                                       std::string body) {
  return relay_session_call(application, exchange, std::move(live), "/sessions", std::move(body),
                            kAgentPatience);
}

Task<Result<void>> relay_session_log(Application& application, Exchange& exchange, LivePtr live,
                                     const std::string& target) {
  HeadBuilder head = agent_head(exchange, agent_method(exchange), target);
  const std::string* accept = exchange.request().find("accept");
  if (accept != nullptr && accept->contains(kRecords)) {
    head.add("accept", kRecords);
  }
  return ask_agent(application, exchange, std::move(live),
                   {.method = agent_method(exchange),
                    .head = head.finish(),
                    .patience = kAgentPatience,
                    .client_cancels = true},
                   relay_log);
}

Task<Result<void>> relay_session_input(Application& application, Exchange& exchange, LivePtr live,
                                       BodySource& body, const std::string& target) {
  HeadBuilder head = agent_head(exchange, "POST", target);
  head.add("content-type", "application/octet-stream");
  return upload_to_agent(application, exchange, std::move(live), body,
                         {.method = "POST",
                          .head = std::move(head),
                          .body_patience = kStreamPatience,
                          .patience = kStreamPatience},
                         relay_any_json);
}

Task<Result<void>> relay_websocket(Application& application, Exchange& exchange, LivePtr live,
                                   const std::string& target) {
  HeadBuilder head = agent_head(exchange, "GET", target);
  head.add("connection", "Upgrade").add("upgrade", "websocket");
  return ask_agent(
      application, exchange, std::move(live),
      {.method = "GET", .head = head.finish(), .patience = kAgentPatience, .upgrades = true},
      relay_upgrade);
}

}  // namespace server
