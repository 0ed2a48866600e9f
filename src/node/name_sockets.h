// What sandbox-dns serves: the address and the sockets that name queries of sandboxes with an
// allow-list are led to, and the socket by which the kernel tells what was refused. The
// address is the first of the sandboxes' subnet, which no sandbox has, on the host's loopback
// interface; the firewall lets nobody else reach it.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/fd.h"
#include "node/netlink.h"

namespace node {

struct NameSockets {
  uint32_t address = 0;  // host byte order
  base::Fd udp;
  base::Fd tcp;
  uint16_t udp_port = 0;
  uint16_t tcp_port = 0;
  // By which the kernel tells of refused packets, those that the firewall logs to that group; none
  // (and 0) on a kernel without.
  base::Fd refused;
  uint16_t refused_group = 0;
};

// Puts the address there (again) and binds; the ports are the same each time unless they are taken.
base::Result<NameSockets> open_name_sockets(Netlink& host, uint32_t address);
// Where what sandboxes send to the gateway's address inside (169.254.1.1, port 80) is led to.
inline constexpr uint16_t kInnerGatewayPort = 10'080;
// A listening socket there, for a gateway; each has one of its own, and what is tracked goes on
// when this node does not. The address is there (open_name_sockets).
base::Result<base::Fd> open_gateway_socket(uint32_t address);
// Takes the address away. Absent is fine.
base::Result<void> remove_name_address(Netlink& host, uint32_t address);

}  // namespace node
