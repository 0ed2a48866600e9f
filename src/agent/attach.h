// A session over an upgraded connection: its log to the client as it comes, the client's input,
// sizes and signals to it (gateway-api "Sessions", api/agent-protocol.md). A coroutine of its
// connection, which is of no more use afterwards. The session goes on when the client goes. Bounds:
// one message of kMessageBytesMax, what LogStream holds.
#pragma once

#include "agent/session.h"
#include "agent/stream_patience.h"
#include "net/http.h"

namespace agent {

using net::Task;

// Whether the request asks for a WebSocket.
bool wants_websocket(const wire::http::Request& request);

// Takes the connection over. `position`: where the log is told from.
Task<Result<void>> attach_session(SessionPtr session, net::Stream& stream, net::HttpReader& reader,
                                  uint64_t position, StreamPatience patience);

// Where a terminal's screen is best told from to somebody who has seen nothing of it: at the
// beginning of a line in the newest part of its log.
uint64_t screen_offset(const SessionLog& log);

}  // namespace agent
