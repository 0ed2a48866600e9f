// Addresses of hosts as the sandbox's own programs would find them, without the C library's name
// service (a static program would load the image's plug-ins): /etc/hosts, then the servers of
// /etc/resolv.conf over UDP, for IPv4. Both files and the answers are hostile: what is not in form
// is skipped. Coroutines of their caller; loop thread only. Bounds: kResolverFileBytesMax of a
// file, kServersMax servers, kSearchMax suffixes, kResolvePatience in all.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/event_loop.h"

namespace agent {

inline constexpr size_t kResolverFileBytesMax = size_t{256} * 1024;
inline constexpr size_t kServersMax = 3;
inline constexpr size_t kSearchMax = 6;
inline constexpr base::Milliseconds kResolvePatience{5'000};

// Without a port until somebody sets one.
struct HostAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);  // NOLINT: what the calls take
  }
  void set_port(uint16_t port);
  [[nodiscard]] uint16_t port() const;
  // "127.0.0.1", "::1".
  [[nodiscard]] std::string text() const;
};

// "127.0.0.1", "::1"; nullopt for what is no address.
std::optional<HostAddress> parse_address(std::string_view text);
// Those that lines of /etc/hosts give to that name, in their order.
std::vector<HostAddress> find_in_hosts(std::string_view hosts, std::string_view name);

struct ResolverConfig {
  std::vector<HostAddress> servers;  // with their port
  std::vector<std::string> search;
};
ResolverConfig parse_resolver_config(std::string_view text);

// At least one. `host` is an address or a name. Errors: conflict with details.reason.
net::Task<base::Result<std::vector<HostAddress>>> resolve(net::EventLoop& loop, std::string host);

}  // namespace agent
