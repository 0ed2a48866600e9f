// A request to a sandbox's agent, from the connection to the answer's head; what becomes of the
// answer is its RelayAnswer's. The agent is hostile: a status that it may not answer with, and what
// is not HTTP, is 502 agent_failed (409 not_ready where the sandbox has ended). A connection is
// kept for the next request only when its answer was read whole. The caller holds the sandbox's
// lease meanwhile. Loop thread only.
#pragma once

#include <string>
#include <string_view>

#include "server/application.h"
#include "server/body_source.h"
#include "server/exchange.h"

namespace server {

using service::AgentChannel;
using service::LivePtr;

inline constexpr int kSwitchingProtocols = 101;

// Takes the answer from its head on to the client. An error before a head went out becomes the
// agent's failure.
using RelayAnswer = Task<Result<void>> (*)(Exchange& exchange, AgentChannel& channel,
                                           const service::Live& live,
                                           const wire::http::Response& response);

// Of a request to the agent; headers and framing are the caller's.
wire::http::HeadBuilder agent_head(const Exchange& exchange, std::string_view method,
                                   std::string_view target);

struct AgentRequest {
  std::string method;
  std::string head;  // agent_head(...).finish()
  std::string body;
  base::Milliseconds patience{};  // until the answer begins
  // A client that goes away ends the agent's connection, which cancels what runs on it.
  bool client_cancels = false;
  bool upgrades = false;  // 101 is an answer
};

// Sends it and relays its answer; once more where a pooled connection was stale.
Task<Result<void>> ask_agent(Application& application, Exchange& exchange, LivePtr live,
                             AgentRequest request, RelayAnswer relay);

// A request whose body comes from the client while it is sent.
struct AgentUpload {
  std::string method;
  wire::http::HeadBuilder head;  // without framing
  std::string first;             // goes before what `body` still has
  // Between two pieces of the body, and for room in the agent's window.
  base::Milliseconds body_patience{};
  base::Milliseconds patience{};  // until the answer begins, once the body is out
};

// Sends it by length where the client told one, else in chunks, and relays the answer. An agent
// that answers before it has taken all of the body is listened to at once; a client that goes away
// ends the agent's connection.
Task<Result<void>> upload_to_agent(Application& application, Exchange& exchange, LivePtr live,
                                   BodySource& body, AgentUpload upload, RelayAnswer relay);

// Says to the agent that nobody waits any more.
void end_channel(AgentChannel& channel);

}  // namespace server
