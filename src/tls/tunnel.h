// Tunnel: one client's TLS connection on one side, the same bytes in the clear on the other, a
// socket pair whose far end the server reads and writes like any connection. Owned by the front's
// coroutine; the front's thread. What one side does not take holds back the other: beside the
// kernel's own buffers at most one scratch buffer each way is kept.
#pragma once

#include <span>
#include <string_view>

#include "net/stream.h"
#include "tls/context.h"

namespace tls {

class Tunnel {
 public:
  // `scratch` is shared by all tunnels of the thread and only used between two waits. The
  // handshake is done.
  Tunnel(net::Stream& client, SSL* ssl, net::Stream& plain, std::span<char> scratch)
      : client_(client), ssl_(ssl), plain_(plain), scratch_(scratch) {}

  // Until the server has closed its end and the client has the last byte, or the client is gone.
  net::Task<void> run();

 private:
  enum class Read { some, nothing_yet, ended };
  struct Records {
    Read state = Read::ended;
    size_t size = 0;
  };
  net::Task<void> carry_in();
  net::Task<void> carry_out();
  net::Task<bool> give(std::string_view bytes);
  net::Task<bool> encrypt(std::string_view bytes);
  net::Task<void> linger();
  Records read_records();
  // Waits for what OpenSSL asks; false: it never comes.
  net::Task<bool> wait_to_write(int ssl_error);
  [[nodiscard]] net::EventLoop& loop() const { return client_.loop(); }

  net::Stream& client_;
  SSL* ssl_;
  net::Stream& plain_;
  std::span<char> scratch_;
  bool broken_ = false;  // nothing more may be said to the client
};

}  // namespace tls
