#include "tls/acceptor.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "tls/handshake.h"
#include "tls/tunnel.h"

namespace tls {
namespace {

using net::Deadline;
using net::Task;

// A round trip or two; a client that drips its handshake holds a descriptor for nothing.
constexpr base::Milliseconds kHandshakePatience{10'000};
// Sixteen records; shared by all connections.
constexpr size_t kScratchBytes = size_t{256} * 1024;
// The first byte of TLS: a handshake record.
constexpr unsigned char kHandshakeRecord = 0x16;
constexpr base::Milliseconds kRefusalPatience{2'000};

// Who asks in plain HTTP reads this.
constexpr std::string_view kPlainBody =
    R"({"error":{"code":"malformed","message":"this port takes HTTPS only","details":{}}})"
    "\n";
constexpr std::string_view kPlainHead =
    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n";

}  // namespace

Acceptor::Acceptor(net::EventLoop& loop, base::Log& log, base::Fd socket,
                   std::shared_ptr<Context> context, Bounds bounds, Handover handover)
    : loop_(loop),
      log_(log),
      bounds_(bounds),
      handover_(std::move(handover)),
      context_(std::move(context)),
      scratch_(kScratchBytes),
      listener_(loop, std::move(socket)),
      connections_(loop) {}

Task<void> Acceptor::run() {
  for (;;) {
    auto client = co_await listener_.accept();
    if (!client) {
      if (client.error().code != base::ErrorCode::cancelled) {
        log_.error("the listener failed", {{"error", client.error().message}});
      }
      break;
    }
    if (connections_.size() < bounds_.connections) {
      connections_.spawn(serve(std::move(*client)));
    }
  }
  listener_.close();
}

Task<void> Acceptor::end() {
  connections_.cancel();
  co_await connections_.join();
}

Task<void> Acceptor::serve(base::Fd socket) {
  net::Stream client(loop_, std::move(socket));
  if (handshakes_.size() >= bounds_.handshakes) {
    ::shutdown(handshakes_.front().socket, SHUT_RDWR);
    handshakes_.pop_front();
  }
  handshakes_.push_back({client.fd()});
  const SslPointer ssl = co_await greet(client);
  std::erase_if(handshakes_, [&](const Handshake& one) { return one.socket == client.fd(); });
  if (!ssl) {
    co_return;
  }
  auto pair = base::sys::make_socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
  if (!pair) {
    log_.error("a TLS connection is dropped", {{"error", pair.error().message}});
    co_return;
  }
  net::Stream plain(loop_, std::move(pair->first));
  handover_(std::move(pair->second), net::peer_address(client.fd()));
  Tunnel tunnel(client, ssl.get(), plain, scratch_);
  co_await tunnel.run();
}

Task<SslPointer> Acceptor::greet(net::Stream& client) {
  const auto deadline = Deadline::after(kHandshakePatience);
  const bool is_tls = co_await speaks_tls(client, deadline);
  SslPointer ssl = is_tls ? context_->accept(client.fd()) : nullptr;
  if (!ssl) {
    co_return nullptr;
  }
  const auto done = co_await shake_hands(client, ssl.get(), deadline);
  if (!done) {
    log_.debug("TLS handshake failed",
               {{"remote", net::peer_address(client.fd())}, {"error", done.error().message}});
    co_return nullptr;
  }
  co_return std::move(ssl);
}

// Looks at the first byte without taking it; who asks in plain HTTP is told.
Task<bool> Acceptor::speaks_tls(net::Stream& client, Deadline deadline) {
  const auto arrived = co_await client.wait_readable(deadline);
  unsigned char first = 0;
  if (!arrived || ::recv(client.fd(), &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1) {
    co_return false;
  }
  if (first == kHandshakeRecord) {
    co_return true;
  }
  if (first >= 'A' && first <= 'Z') {
    const std::string head =
        base::cat(kPlainHead, "content-length: ", kPlainBody.size(), "\r\n\r\n");
    const auto told = co_await client.write_all(head, kPlainBody, kRefusalPatience);
    client.shutdown_write();
    // Closing with bytes unread would reset the connection under the answer.
    const auto end = Deadline::after(kRefusalPatience);
    while (told) {
      const auto rest = co_await client.read_some(scratch_, end);
      if (!rest || *rest == 0) {
        break;
      }
    }
  }
  co_return false;
}

}  // namespace tls
