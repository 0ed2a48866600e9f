// Two connections that became byte streams (after an upgrade), each given what the other sends.
// Loop thread only. A reader that stands still holds up its own writer only; an idle pair holds no
// buffer, a busy one 16 KiB or a kernel pipe each way.
#pragma once

#include <string>

#include "net/stream.h"

namespace server {

struct StreamEnd {
  net::Stream& stream;
  std::string read_ahead;  // came with the head and belongs to the other side
};

// Until either side ends (or is shut down): then neither is read any more.
net::Task<void> pump_both(StreamEnd client, StreamEnd agent);
// The end of one direction is passed on and the other goes on until its own; an error ends both.
net::Task<void> pump_halves(StreamEnd client, StreamEnd agent);

}  // namespace server
