// All fault points of the agent, in the order of what it does: tests walk this list
// (`sandbox-agent --list-fault-points`). An agent is armed by SANDBOX_FAULT in its sandbox's
// environment.
#pragma once

#include <array>

namespace agent {

inline constexpr std::array kFaultPoints{"agent.run.started",     "agent.run.ended",
                                         "agent.upload.begun",    "agent.upload.written",
                                         "agent.upload.replaced", "agent.archive.placed",
                                         "agent.session.started", "agent.session.input",
                                         "agent.session.told",    "agent.session.removed"};

}  // namespace agent
