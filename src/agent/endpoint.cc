#include "agent/endpoint.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "agent/acting_as.h"

namespace agent {
namespace {

using base::Fd;
using net::Deadline;
using net::Task;

// Those that wait for us to accept; as many as we hold ourselves.
constexpr int kBacklog = 16;
// Of a listening socket's file: whoever else may connect is its user's to say.
constexpr mode_t kSocketMode = 0600;
// How often a socket whose backlog is full is tried again.
constexpr base::Milliseconds kFullPause{50};

std::string_view reason_of(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
      return "refused";
    case ETIMEDOUT:
    case EAGAIN:
      return "timed_out";
    case ENOENT:
    case ENOTDIR:
    case ENOTSOCK:
      return "not_found";
    case EADDRINUSE:
      return "address_in_use";
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ENAMETOOLONG:
      return "address_not_available";
    default:
      return "unreachable";
  }
}

std::unexpected<base::Error> endpoint_error(int error, std::string_view what) {
  if (error == EACCES || error == EPERM) {
    return base::fail(ErrorCode::permission_denied, what, ": ", ::strerrordesc_np(error));
  }
  auto failure = base::fail(ErrorCode::conflict, what, ": ", ::strerrordesc_np(error));
  failure.error().details.emplace_back("reason", reason_of(error));
  return failure;
}

Result<HostAddress> socket_path(const std::string& path) {
  HostAddress address;
  auto& local = reinterpret_cast<sockaddr_un&>(address.storage);  // NOLINT: one of its kinds
  if (path.size() >= sizeof local.sun_path) {
    return base::fail_field("path", "a socket's path has at most ", sizeof local.sun_path - 1,
                            " bytes");
  }
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path, path.data(), path.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

Fd make_socket(const HostAddress& address) {
  return Fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// errno of the attempt, or 0.
Task<int> wait_connected(net::EventLoop& loop, int socket, Deadline deadline) {
  const auto wake = co_await loop.wait(socket, net::EventLoop::Direction::write, deadline);
  loop.forget(socket);
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (wake == net::EventLoop::Wake::ready) {
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  co_return error;
}

// Bound and listening.
Result<Fd> listen_at(const HostAddress& address, const Identity& identity, std::string_view what) {
  const ActingFullyAs acting(identity);
  Fd socket = make_socket(address);
  const int yes = 1;
  if (socket && address.storage.ss_family == AF_UNIX) {
    ::fchmod(socket.get(), kSocketMode);  // taken over by the file that bind() makes
  } else if (socket) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  }
  if (!socket || ::bind(socket.get(), address.get(), address.size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return endpoint_error(errno, what);
  }
  return socket;
}

}  // namespace

Task<Result<Fd>> connect_tcp(net::EventLoop& loop, std::string host, uint16_t port) {
  CO_ASSIGN_OR_RETURN(auto addresses, co_await resolve(loop, host));
  const Deadline deadline = Deadline::after(kConnectPatience);
  int error = ETIMEDOUT;
  for (HostAddress& address : addresses) {
    address.set_port(port);
    Fd socket = make_socket(address);
    error = 0;
    if (!socket || ::connect(socket.get(), address.get(), address.size) != 0) {
      error = errno;
    }
    if (error == EINPROGRESS) {
      error = co_await wait_connected(loop, socket.get(), deadline);
    }
    if (error == 0) {
      co_return socket;
    }
  }
  co_return endpoint_error(error, base::cat("connect to ", host, " port ", port));
}

Task<Result<Fd>> connect_socket(net::EventLoop& loop, std::string path, Identity identity) {
  CO_ASSIGN_OR_RETURN(const HostAddress address, socket_path(path));
  const Deadline deadline = Deadline::after(kConnectPatience);
  const auto try_once = [&address, &identity](int socket) {
    const ActingFullyAs acting(identity);
    return ::connect(socket, address.get(), address.size) == 0 ? 0 : errno;
  };
  Fd socket = make_socket(address);
  if (!socket) {
    co_return endpoint_error(errno, "make a socket");
  }
  int error = try_once(socket.get());
  while (error == EAGAIN && std::chrono::steady_clock::now() < deadline.time()) {
    const auto wake = co_await loop.sleep_until(Deadline::after(kFullPause));
    if (wake == net::EventLoop::Wake::cancelled) {
      break;
    }
    error = try_once(socket.get());
  }
  if (error != 0) {
    co_return endpoint_error(error, base::cat("connect to ", path));
  }
  co_return socket;
}

Result<Fd> listen_tcp(const std::string& host, uint16_t port, const Identity& identity) {
  const bool is_any = host.empty() || host == "*";
  auto address = parse_address(is_any ? "0.0.0.0" : host == "localhost" ? "127.0.0.1" : host);
  if (!address) {
    return base::fail_field("host", "'host' must be an address, localhost or *");
  }
  address->set_port(port);
  return listen_at(*address, identity, base::cat("listen on ", host, " port ", port));
}

Result<Fd> listen_socket(const std::string& path, const Identity& identity) {
  ASSIGN_OR_RETURN(const HostAddress address, socket_path(path));
  return listen_at(address, identity, base::cat("listen on ", path));
}

HostAddress local_address(int socket) {
  HostAddress address;
  address.size = sizeof address.storage;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage),  // NOLINT: the call's
                &address.size);
  return address;
}

HostAddress peer_address(int socket) {
  HostAddress address;
  address.size = sizeof address.storage;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage),  // NOLINT: the call's
                &address.size);
  return address;
}

}  // namespace agent
