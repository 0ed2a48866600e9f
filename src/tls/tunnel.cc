#include "tls/tunnel.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "net/task_group.h"

namespace tls {
namespace {

using net::Deadline;
using net::EventLoop;
using net::Task;

// The other side's state is looked at this often while one is waited for.
constexpr base::Milliseconds kLook{500};
// So many looks at a server that takes nothing after its client has hung up: two seconds, in which
// one that only began to read late would have gone on.
constexpr int kLooksAfterHangUp = 4;
// A client that takes no byte for so long after the server has closed does not want the rest.
constexpr base::Milliseconds kRestPatience{60'000};
// As with a plain connection (server/limits.h): closing with bytes unread resets the connection,
// and the client would lose the answer.
constexpr base::Milliseconds kLingerPatience{2'000};
constexpr uint64_t kLingerBytesMax = uint64_t{64} * 1024 * 1024;
// OpenSSL rarely wants to read in order to write, or the reverse (a new key): looked at again.
constexpr base::Milliseconds kOddWait{5};

bool has_hung_up(const net::Stream& stream) {
  pollfd state{.fd = stream.fd(), .events = POLLRDHUP, .revents = 0};
  ::poll(&state, 1, 0);
  return (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

Task<void> Tunnel::run() {
  net::TaskGroup in(loop(), co_await net::current_cancellation());
  in.spawn(carry_in());
  co_await carry_out();
  in.cancel();
  co_await in.join();
  if (!broken_) {
    co_await linger();
  }
}

// As many records as there are and fit.
Tunnel::Records Tunnel::read_records() {
  Records out{.state = Read::some, .size = 0};
  while (out.size + SSL3_RT_MAX_PLAIN_LENGTH <= scratch_.size()) {
    ::ERR_clear_error();
    size_t count = 0;
    const int done =
        ::SSL_read_ex(ssl_, scratch_.data() + out.size, scratch_.size() - out.size, &count);
    if (done == 1) {
      out.size += count;
      continue;
    }
    if (out.size > 0) {
      break;  // the next call says the same again
    }
    const int error = ::SSL_get_error(ssl_, done);
    out.state = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? Read::nothing_yet
                                                                              : Read::ended;
    broken_ = broken_ || error == SSL_ERROR_SSL || error == SSL_ERROR_SYSCALL;
    break;
  }
  return out;
}

// Client to server.
Task<void> Tunnel::carry_in() {
  for (;;) {
    const Records records = read_records();
    if (records.state == Read::ended) {
      break;
    }
    if (records.state == Read::nothing_yet) {
      const auto wake =
          co_await loop().wait(client_.fd(), EventLoop::Direction::read, Deadline::never());
      if (wake != EventLoop::Wake::ready) {
        co_return;
      }
      continue;
    }
    const bool given = co_await give({scratch_.data(), records.size});
    if (!given) {
      break;
    }
    co_await loop().yield();
  }
  // The server sees an end of its input, as it would of a plain connection.
  plain_.shutdown_write();
}

// All of them to the server; false: it reads no more, or the client is gone.
Task<bool> Tunnel::give(std::string_view bytes) {
  std::string rest;
  int looks = 0;
  for (;;) {
    const ssize_t count =
        ::send(plain_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      co_return false;
    }
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      looks = 0;
    }
    if (bytes.empty()) {
      co_return true;
    }
    if (rest.empty()) {
      rest = bytes;
      bytes = rest;
    }
    const auto wake =
        co_await loop().wait(plain_.fd(), EventLoop::Direction::write, Deadline::after(kLook));
    if (wake == EventLoop::Wake::cancelled) {
      co_return false;
    }
    if (wake == EventLoop::Wake::deadline && has_hung_up(client_) && ++looks >= kLooksAfterHangUp) {
      co_return false;
    }
  }
}

// Server to client.
Task<void> Tunnel::carry_out() {
  for (;;) {
    const ssize_t count = ::read(plain_.fd(), scratch_.data(), scratch_.size());
    if (count > 0) {
      const bool sent = co_await encrypt({scratch_.data(), static_cast<size_t>(count)});
      if (!sent) {
        broken_ = true;
        co_return;
      }
      co_await loop().yield();
      continue;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      co_return;
    }
    const auto wake =
        co_await loop().wait(plain_.fd(), EventLoop::Direction::read, Deadline::never());
    if (wake != EventLoop::Wake::ready) {
      co_return;
    }
  }
}

Task<bool> Tunnel::encrypt(std::string_view bytes) {
  std::string rest;
  while (!bytes.empty()) {
    ::ERR_clear_error();
    size_t count = 0;
    const int done = ::SSL_write_ex(ssl_, bytes.data(), bytes.size(), &count);
    if (done == 1) {
      bytes.remove_prefix(count);
      continue;
    }
    if (rest.empty()) {
      rest = bytes;
      bytes = rest;
    }
    const bool ready = co_await wait_to_write(::SSL_get_error(ssl_, done));
    if (!ready) {
      co_return false;
    }
  }
  co_return true;
}

Task<bool> Tunnel::wait_to_write(int ssl_error) {
  if (ssl_error == SSL_ERROR_WANT_READ) {
    const auto slept = co_await loop().sleep_until(Deadline::after(kOddWait));
    co_return slept != EventLoop::Wake::cancelled;
  }
  if (ssl_error != SSL_ERROR_WANT_WRITE) {
    co_return false;
  }
  for (;;) {
    const auto wake = co_await loop().wait(client_.fd(), EventLoop::Direction::write,
                                           Deadline::after(kRestPatience));
    if (wake != EventLoop::Wake::deadline) {
      co_return wake == EventLoop::Wake::ready;
    }
    if (has_hung_up(plain_)) {
      co_return false;
    }
  }
}

Task<void> Tunnel::linger() {
  ::ERR_clear_error();
  ::SSL_shutdown(ssl_);
  ::ERR_clear_error();
  client_.shutdown_write();
  const auto deadline = Deadline::after(kLingerPatience);
  for (uint64_t seen = 0; seen < kLingerBytesMax;) {
    const auto count = co_await client_.read_some(scratch_, deadline);
    if (!count || *count == 0) {
      co_return;
    }
    seen += *count;
  }
}

}  // namespace tls
