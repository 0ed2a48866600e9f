#include "server/relay_streams.h"

#include "server/agent_answer.h"
#include "server/limits.h"

namespace server {
namespace {

Task<Result<void>> relay_joined(Exchange& exchange, AgentChannel& channel,
                                const service::Live& live, const wire::http::Response& response) {
  if (response.status != kSwitchingProtocols) {
    co_return co_await relay_any_json(exchange, channel, live, response);
  }
  auto head = exchange.start_head(kSwitchingProtocols);
  head.add("connection", "Upgrade").add("upgrade", kStreamProtocol);
  co_return co_await join_to_agent(exchange, channel, std::move(head), net::HalfClose::passed_on);
}

}  // namespace

Result<void> check_stream_upgrade(const wire::http::Request& request) {
  const std::string* upgrade = request.find("upgrade");
  const std::string* connection = request.find("connection");
  if (upgrade == nullptr || !base::equals_ignoring_case(*upgrade, kStreamProtocol) ||
      connection == nullptr || !base::lower(*connection).contains("upgrade")) {
    return base::fail(ErrorCode::malformed, "'Connection: Upgrade' and 'Upgrade: ", kStreamProtocol,
                      "' are missing");
  }
  return {};
}

Task<Result<void>> relay_stream(Application& application, Exchange& exchange, LivePtr live,
                                const std::string& target, std::string body) {
  const std::string& method = exchange.request().method;
  auto head = agent_head(exchange, method, target);
  head.add("connection", "Upgrade").add("upgrade", kStreamProtocol);
  if (!body.empty()) {
    head.add("content-type", "application/json").add_length(body.size());
  }
  return ask_agent(application, exchange, std::move(live),
                   {.method = method,
                    .head = head.finish(),
                    .body = std::move(body),
                    .patience = kAgentPatience,
                    .upgrades = true},
                   relay_joined);
}

}  // namespace server
