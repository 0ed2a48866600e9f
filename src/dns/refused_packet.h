// What the kernel tells of packets that the firewall refused (NFLOG, nfnetlink_log): datagrams of
// netlink messages, each with the beginning of a packet that a sandbox has sent. Pure; whatever is
// of another form is left out.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace dns {

struct RefusedPacket {
  uint32_t from = 0;  // host byte order
  uint32_t to = 0;
  uint8_t protocol = 0;  // as in the packet's head: 6 is TCP
  uint16_t port = 0;     // of TCP and UDP, where the packet shows it

  bool operator==(const RefusedPacket&) const = default;
};

std::vector<RefusedPacket> parse_refused_packets(std::string_view datagram);

}  // namespace dns
