// Moves a message's body from one connection to another, inside the kernel where it is large.
// Loop thread only; buffers at most 64 KiB.
#pragma once

#include "net/http.h"
#include "server/exchange.h"

namespace server {

// How the receiving side is told where the body ends.
enum class Framing { plain, chunked };  // plain: the head had its length, or it ends with the close

// The rest of the body that `reader` (on `from`) stands in. `patience` bounds each wait. An end of
// `from` inside the body is connection_closed.
Task<Result<void>> pump_body(net::Stream& from, net::HttpReader& reader, net::Stream& to,
                             Framing framing, base::Milliseconds patience);

}  // namespace server
