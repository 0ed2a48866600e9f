#include "tls/front.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "tls/tunnel.h"

namespace tls {
namespace {

using base::Result;
using net::Deadline;
using net::EventLoop;
using net::Task;

// A round trip or two; a client that drips its handshake holds a descriptor for nothing.
constexpr base::Milliseconds kHandshakePatience{10'000};
// A full one costs the processor about a millisecond: more than a burst of clients, less than what
// would keep the thread from its streams for long. One more ends the oldest.
constexpr size_t kHandshakesMax = 512;
// A little above the server's own bound (server/limits.h), so that it is the server who says 429.
constexpr size_t kConnectionsMax = 8192 + kHandshakesMax;
// How soon a renewed certificate is noticed.
constexpr base::Milliseconds kFileLook{1'000};
// What the server wrote last has this long to reach its clients once it stops.
constexpr base::Milliseconds kFinishPatience{3'000};
constexpr base::Milliseconds kFinishLook{10};
// Sixteen records; shared by all connections.
constexpr size_t kScratchBytes = 256 * 1024;
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

Front::Front(base::Clock& clock, base::Log& log, Handover handover)
    : clock_(clock),
      log_(log),
      handover_(std::move(handover)),
      scratch_(kScratchBytes),
      accepting_(loop_),
      connections_(loop_),
      finishing_(loop_) {}

Front::~Front() {
  if (thread_.joinable()) {
    loop_.post([this] { finishing_.spawn(finish()); });
    thread_.join();
  }
}

Result<uint16_t> Front::listen(const std::string& address, int backlog, Files files) {
  files_ = std::move(files);
  stamps_ = look_at_files();
  ASSIGN_OR_RETURN(context_, Context::load(files_));
  if (!context_->is_valid_at(clock_.wall())) {
    log_.warning("the certificate is not valid now",
                 {{"file", files_.certificate}, {"expires", context_->expires()}});
  }
  ASSIGN_OR_RETURN(auto socket, net::listen_tcp(address, backlog));
  listener_.emplace(loop_, std::move(socket));
  const uint16_t port = listener_->port();
  thread_ = std::jthread([this] {
    accepting_.spawn(accept_all());
    accepting_.spawn(watch_files());
    loop_.run();
    // The last coroutine ends in the turn after the one that stopped the loop.
    while (finishing_.size() > 0) {
      loop_.run_once(kFinishLook);
    }
  });
  return port;
}

void Front::stop_accepting() {
  loop_.post([this] { accepting_.cancel(); });
}

Task<void> Front::finish() {
  accepting_.cancel();
  co_await accepting_.join();
  const auto end = std::chrono::steady_clock::now() + kFinishPatience;
  while (connections_.size() > 0 && std::chrono::steady_clock::now() < end) {
    co_await loop_.sleep_until(Deadline::after(kFinishLook));
  }
  connections_.cancel();
  co_await connections_.join();
  loop_.stop();
}

Task<void> Front::accept_all() {
  for (;;) {
    auto client = co_await listener_->accept();
    if (!client) {
      if (client.error().code != base::ErrorCode::cancelled) {
        log_.error("the listener failed", {{"error", client.error().message}});
      }
      break;
    }
    if (connections_.size() < kConnectionsMax) {
      connections_.spawn(serve(std::move(*client)));
    }
  }
  listener_->close();
}

Front::Stamps Front::look_at_files() const {
  const auto stamp = [](const std::string& file) {
    struct stat state{};
    constexpr int64_t kNsPerSecond = 1'000'000'000;
    if (::stat(file.c_str(), &state) != 0) {
      return Stamp{};
    }
    return Stamp{.changed_ns = state.st_mtim.tv_sec * kNsPerSecond + state.st_mtim.tv_nsec,
                 .inode = state.st_ino,
                 .size = state.st_size};
  };
  return {stamp(files_.certificate), stamp(files_.key)};
}

Task<void> Front::watch_files() {
  for (;;) {
    const auto slept = co_await loop_.sleep_until(Deadline::after(kFileLook));
    if (slept == EventLoop::Wake::cancelled) {
      co_return;
    }
    const Stamps now = look_at_files();
    if (now != stamps_) {
      stamps_ = now;
      reload();
    }
  }
}

// Both files are seldom replaced in one instant: a pair that does not fit is looked at again when
// one of them changes once more.
void Front::reload() {
  auto context = Context::load(files_);
  if (!context) {
    log_.error("the new certificate is not used", {{"error", context.error().message}});
    return;
  }
  if (!(*context)->is_valid_at(clock_.wall())) {
    log_.error("the new certificate is not used",
               {{"error", "it is not valid now"}, {"expires", (*context)->expires()}});
    return;
  }
  context_ = std::move(*context);
  log_.info("a new certificate is used",
            {{"file", files_.certificate}, {"expires", context_->expires()}});
}

Task<void> Front::serve(base::Fd socket) {
  net::Stream client(loop_, std::move(socket));
  if (handshakes_.size() >= kHandshakesMax) {
    ::shutdown(handshakes_.front().socket, SHUT_RDWR);
    handshakes_.pop_front();
  }
  handshakes_.push_back({client.fd()});
  const SslPointer ssl = co_await shake_hands(client);
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

Task<SslPointer> Front::shake_hands(net::Stream& client) {
  const auto deadline = Deadline::after(kHandshakePatience);
  const bool is_tls = co_await speaks_tls(client, deadline);
  SslPointer ssl = is_tls ? context_->accept(client.fd()) : nullptr;
  while (ssl) {
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl.get());
    if (done == 1) {
      break;
    }
    const int error = ::SSL_get_error(ssl.get(), done);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      log_.debug("TLS handshake failed",
                 {{"remote", net::peer_address(client.fd())}, {"error", take_ssl_error()}});
      co_return nullptr;
    }
    const auto direction =
        error == SSL_ERROR_WANT_READ ? EventLoop::Direction::read : EventLoop::Direction::write;
    const auto wake = co_await loop_.wait(client.fd(), direction, deadline);
    if (wake != EventLoop::Wake::ready) {
      co_return nullptr;
    }
  }
  co_return std::move(ssl);
}

// Looks at the first byte without taking it; who asks in plain HTTP is told.
Task<bool> Front::speaks_tls(net::Stream& client, Deadline deadline) {
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
