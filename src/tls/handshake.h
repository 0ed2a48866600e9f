// The handshake of either end of a TLS connection, on a non-blocking socket.
#pragma once

#include "net/stream.h"
#include "tls/context.h"

namespace tls {

// connection_closed: the ends do not agree (the message is OpenSSL's), or the other one is gone;
// deadline_exceeded, cancelled.
net::Task<net::Result<void>> shake_hands(net::Stream& stream, SSL* ssl, net::Deadline deadline);

}  // namespace tls
