#include "node/name_sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace node {

using base::Fd;
using base::Result;

namespace {

constexpr uint32_t kLoopbackIndex = 1;
// Not 53: a name server of the host that listens on every address there must not be heard by
// sandboxes while there is no node. Always the same, so that a connection tracked before a restart
// leads to the right one behind it.
constexpr uint16_t kPort = 10'053;
constexpr int kBacklog = 64;
// Groups of refused packets: one for each node of the host.
constexpr uint16_t kFirstGroup = 0x5b01;
constexpr uint16_t kGroups = 64;
// Of a refused packet: its head with options, and the ports.
constexpr uint32_t kRefusedBytes = 64;
// Every sandbox of a machine that begins at once.
constexpr int kGatewayBacklog = 1024;

void add_address(NetlinkBatch& batch, std::string_view what, uint16_t type, uint16_t flags,
                 uint32_t address) {
  batch.begin(what, type, flags);
  batch.header(ifaddrmsg{.ifa_family = AF_INET,
                         .ifa_prefixlen = 32,
                         .ifa_scope = RT_SCOPE_HOST,
                         .ifa_index = kLoopbackIndex});
  batch.attribute_number(IFA_LOCAL, htonl(address));
  batch.attribute_number(IFA_ADDRESS, htonl(address));
  batch.end();
}

// Returns the port.
Result<uint16_t> bind_to(const Fd& socket, uint32_t address) {
  const int one = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(kPort);
  name.sin_addr.s_addr = htonl(address);
  auto* generic = reinterpret_cast<sockaddr*>(&name);
  if (::bind(socket.get(), generic, sizeof name) != 0) {
    name.sin_port = 0;
    if (::bind(socket.get(), generic, sizeof name) != 0) {
      return base::fail_errno(errno, "bind a socket for names");
    }
  }
  socklen_t size = sizeof name;
  if (::getsockname(socket.get(), generic, &size) != 0) {
    return base::fail_errno(errno, "ask for the port of a socket");
  }
  return ntohs(name.sin_port);
}

void begin_log_setting(NetlinkBatch& batch, std::string_view what, uint16_t group) {
  batch.begin(what, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, 0);
  batch.header(
      nfgenmsg{.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(group)});
}

// A socket that alone hears a group which nobody hears yet.
Result<void> open_refused_socket(NameSockets& sockets) {
  ASSIGN_OR_RETURN(auto netlink, Netlink::open(NETLINK_NETFILTER));
  for (uint16_t group = kFirstGroup; group < kFirstGroup + kGroups; ++group) {
    NetlinkBatch bind;
    begin_log_setting(bind, "hear of refused packets", group);
    bind.attribute_number(NFULA_CFG_CMD, nfulnl_msg_config_cmd{.command = NFULNL_CFG_CMD_BIND});
    bind.end();
    const auto bound = netlink.run(bind);
    if (!bound && (bound.error().errno_value == EBUSY || bound.error().errno_value == EPERM)) {
      continue;
    }
    RETURN_IF_ERROR(bound);
    NetlinkBatch mode;
    begin_log_setting(mode, "hear of refused packets", group);
    mode.attribute_number(NFULA_CFG_MODE, nfulnl_msg_config_mode{.copy_range = htonl(kRefusedBytes),
                                                                 .copy_mode = NFULNL_COPY_PACKET,
                                                                 ._pad = 0});
    mode.end();
    RETURN_IF_ERROR(netlink.run(mode));
    sockets.refused = std::move(netlink).take_socket();
    sockets.refused_group = group;
    return {};
  }
  return base::fail(base::ErrorCode::overloaded, "too many hear of refused packets");
}

}  // namespace

Result<NameSockets> open_name_sockets(Netlink& host, uint32_t address) {
  NetlinkBatch batch;
  add_address(batch, "set the address for names", RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE,
              address);
  RETURN_IF_ERROR(host.run(batch));
  constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
  NameSockets sockets{.address = address,
                      .udp = Fd(::socket(AF_INET, SOCK_DGRAM | kFlags, 0)),
                      .tcp = Fd(::socket(AF_INET, SOCK_STREAM | kFlags, 0))};
  if (!sockets.udp || !sockets.tcp) {
    return base::fail_errno(errno, "make a socket for names");
  }
  ASSIGN_OR_RETURN(sockets.udp_port, bind_to(sockets.udp, address));
  ASSIGN_OR_RETURN(sockets.tcp_port, bind_to(sockets.tcp, address));
  if (::listen(sockets.tcp.get(), kBacklog) != 0) {
    return base::fail_errno(errno, "listen for names");
  }
  // Without it refusals are not told.
  [[maybe_unused]] const auto heard = open_refused_socket(sockets);
  return sockets;
}

Result<Fd> open_gateway_socket(uint32_t address) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int one = 1;
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(kInnerGatewayPort);
  name.sin_addr.s_addr = htonl(address);
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0 ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(socket.get(), kGatewayBacklog) != 0) {
    return base::fail_errno(errno, "open the gateway's socket for sandboxes");
  }
  return socket;
}

Result<void> remove_name_address(Netlink& host, uint32_t address) {
  NetlinkBatch batch;
  add_address(batch, "remove the address for names", RTM_DELADDR, 0, address);
  auto removed = host.run(batch);
  if (!removed && removed.error().errno_value != EADDRNOTAVAIL) {
    return removed;
  }
  return {};
}

}  // namespace node
