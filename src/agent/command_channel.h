// A command whose streams are its client's connection (POST /command, api/agent-protocol.md): its
// output goes out as it comes, held up by a slow reader, kept nowhere; the client's input, sizes
// and signals go in. Lives as long as its connection: who leaves ends the command and all of
// its tree that still uses that connection, or hangs its terminal up. A coroutine of that
// connection. Bounds: one message of kMessageBytesMax, one piece of output, what CommandInput
// queues.
#pragma once

#include "agent/agent.h"
#include "agent/session_request.h"
#include "net/http.h"

namespace agent {

// {"command" or "argv" or "login_shell":true, "env", "cwd", "user", "tty"}
Result<SessionRequest> parse_channel_request(Agent& agent, std::string_view body);

// Takes the connection over once the command runs; before that errors are ordinary answers.
net::Task<Result<void>> run_command_channel(Agent& agent, net::Stream& stream,
                                            net::HttpReader& reader, SessionRequest request);

}  // namespace agent
