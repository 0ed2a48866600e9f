// A small question of the gateway's own to a sandbox's agent. The agent is hostile: its answer is
// bounded and must be one JSON object with status 200. Loop thread only.
#pragma once

#include <functional>
#include <string>

#include "service/context.h"
#include "wire/json.h"

namespace service {

// An agent answers in a millisecond; one with a hundredth of a cpu needs its time.
inline constexpr base::Milliseconds kAgentAnswerPatience{5'000};

struct AgentQuestion {
  std::string method = "GET";
  std::string target;
  std::string body;  // JSON
  base::Milliseconds patience = kAgentAnswerPatience;
  // Called when all of it is with the agent, which does it before what it is asked later.
  std::function<void()> on_sent = nullptr;
};

// `address`: engine::agent_address(). Errors: those of connect(); agent_failed, with details.status
// where it answered with another one; unavailable when it does not answer in time.
net::Task<base::Result<wire::json::Object>> ask_agent_json(Context& context, std::string address,
                                                           AgentQuestion question);

}  // namespace service
