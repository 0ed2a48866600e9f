#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <array>

#include "base/text.h"
#include "net/stream.h"

namespace net {
namespace {

// How long a listener that has no descriptor left waits before it looks again: connections end on
// that scale, and the wait costs nothing.
constexpr base::Milliseconds kNoDescriptorPause{50};

// A peer that vanished without a word while nothing is sent is found out within two minutes: an
// open stream keeps its sandbox alive. In seconds, and how many probes.
constexpr int kProbeAfter = 60;
constexpr int kProbeEvery = 15;
constexpr int kProbes = 4;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Result<SocketAddress> parse_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : base::parse_number<uint16_t>(std::string_view(text).substr(colon + 1));
  if (!port) {
    return base::fail(ErrorCode::invalid_field, "'", text, "' is not ADDRESS:PORT");
  }
  const std::string host = text.substr(0, colon);
  SocketAddress out;
  sockaddr_in four{};
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(*port);
    out.size = sizeof four;
    ::memcpy(&out.storage, &four, sizeof four);
    return out;
  }
  sockaddr_in6 six{};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']' &&
      ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(*port);
    out.size = sizeof six;
    ::memcpy(&out.storage, &six, sizeof six);
    return out;
  }
  return base::fail(ErrorCode::invalid_field, "'", host, "' is not an IP address");
}

// Errors of accept(2) that belong to one connection, not to the listener.
bool is_of_the_connection(int number) {
  switch (number) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

bool is_exhaustion(int number) {
  return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

void watch_for_vanished_peers(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kProbeAfter, sizeof kProbeAfter);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeEvery, sizeof kProbeEvery);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

}  // namespace

std::string peer_address(int fd) {
  SocketAddress peer{.size = sizeof(sockaddr_storage)};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0) {
    return "";
  }
  if (peer.storage.ss_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&peer.storage);
    ::inet_ntop(AF_INET, &four->sin_addr, text.data(), text.size());
  } else if (peer.storage.ss_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&peer.storage);
    ::inet_ntop(AF_INET6, &six->sin6_addr, text.data(), text.size());
  }
  std::string_view address = text.data();
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped) && address.contains('.')) {
    address.remove_prefix(kMapped.size());
  }
  return std::string(address);
}

Result<void> check_address(const std::string& address) {
  RETURN_IF_ERROR(parse_address(address));
  return {};
}

Result<base::Fd> listen_tcp(const std::string& address, int backlog) {
  ASSIGN_OR_RETURN(const SocketAddress parsed, parse_address(address));
  base::Fd socket(
      ::socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    return base::fail_errno(errno, "make a socket");
  }
  const int on = 1;
  watch_for_vanished_peers(socket.get());  // accepted connections inherit it
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&parsed.storage), parsed.size) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    return base::fail_errno(errno, "listen on ", address);
  }
  return socket;
}

Task<Result<base::Fd>> connect_tcp(EventLoop& loop, std::string address, Deadline deadline) {
  CO_ASSIGN_OR_RETURN(const SocketAddress parsed, parse_address(address));
  base::Fd socket(
      ::socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    co_return base::fail_errno(errno, "make a socket");
  }
  const int on = 1;
  watch_for_vanished_peers(socket.get());
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  int failed = 0;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&parsed.storage), parsed.size) !=
      0) {
    failed = errno;
  }
  if (failed == EINPROGRESS) {
    const auto wake = co_await loop.wait(socket.get(), EventLoop::Direction::write, deadline);
    loop.forget(socket.get());
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(wake_error(wake, base::cat("connect to ", address)));
    }
    socklen_t size = sizeof failed;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
  }
  if (failed != 0) {
    co_return base::fail(ErrorCode::unavailable, "connect to ", address, ": ",
                         ::strerrordesc_np(failed));
  }
  co_return socket;
}

Task<Result<base::Fd>> Listener::accept() {
  for (;;) {
    base::Fd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      const int on = 1;
      // Fails on unix sockets, which have no such delay.
      ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      co_return std::move(connection);
    }
    const int number = errno;
    if (is_of_the_connection(number)) {
      continue;
    }
    if (is_exhaustion(number)) {
      const auto slept = co_await loop_.sleep_until(Deadline::after(kNoDescriptorPause));
      if (slept == EventLoop::Wake::cancelled) {
        co_return std::unexpected(wake_error(slept, "accept"));
      }
      continue;
    }
    if (number != EAGAIN) {
      co_return base::fail_errno(number, "accept a connection");
    }
    const auto wake =
        co_await loop_.wait(socket_.get(), EventLoop::Direction::read, Deadline::never());
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(wake_error(wake, "accept"));
    }
  }
}

uint16_t Listener::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port)
             : uint16_t{0};
}

void Listener::close() {
  if (socket_) {
    loop_.forget(socket_.get());
    socket_.reset();
  }
}

}  // namespace net
