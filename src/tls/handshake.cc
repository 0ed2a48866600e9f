#include "tls/handshake.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace tls {

using net::EventLoop;

net::Task<net::Result<void>> shake_hands(net::Stream& stream, SSL* ssl, net::Deadline deadline) {
  for (;;) {
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl);
    if (done == 1) {
      co_return net::Result<void>{};
    }
    const int error = ::SSL_get_error(ssl, done);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      co_return base::fail(base::ErrorCode::connection_closed, take_ssl_error());
    }
    const auto direction =
        error == SSL_ERROR_WANT_READ ? EventLoop::Direction::read : EventLoop::Direction::write;
    const auto wake = co_await stream.loop().wait(stream.fd(), direction, deadline);
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(net::wake_error(wake, "TLS handshake"));
    }
  }
}

}  // namespace tls
