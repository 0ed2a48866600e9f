#include "dns/refused_packet.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include <optional>

namespace dns {
namespace {

constexpr uint16_t kPacketMessage = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;
// Of an IPv4 head, in bytes: where what is read of it stands.
constexpr size_t kHeadBytesMin = 20;
constexpr size_t kFragmentAt = 6;
constexpr size_t kProtocolAt = 9;
constexpr size_t kSourceAt = 12;
constexpr size_t kDestinationAt = 16;
constexpr uint32_t kFragmentOffset = 0x1fff;

// A number of `size` bytes in network order.
uint32_t number_at(std::string_view bytes, size_t at, size_t size) {
  uint32_t number = 0;
  for (size_t i = 0; i < size; ++i) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return number;
}

std::optional<RefusedPacket> parse_packet(std::string_view bytes) {
  if (bytes.size() < kHeadBytesMin || static_cast<uint8_t>(bytes[0]) >> 4 != 4) {
    return std::nullopt;
  }
  RefusedPacket packet{.from = number_at(bytes, kSourceAt, 4),
                       .to = number_at(bytes, kDestinationAt, 4),
                       .protocol = static_cast<uint8_t>(bytes[kProtocolAt]),
                       .port = 0};
  const size_t head = size_t{4} * (static_cast<uint8_t>(bytes[0]) & 0xfU);
  const bool has_ports = (packet.protocol == IPPROTO_TCP || packet.protocol == IPPROTO_UDP) &&
                         (number_at(bytes, kFragmentAt, 2) & kFragmentOffset) == 0;
  if (has_ports && head >= kHeadBytesMin && bytes.size() >= head + 4) {
    packet.port = static_cast<uint16_t>(number_at(bytes, head + 2, 2));
  }
  return packet;
}

// The packet among a message's attributes.
std::string_view payload_of(std::string_view attributes) {
  nlattr head;
  while (attributes.size() >= sizeof head) {
    ::memcpy(&head, attributes.data(), sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > attributes.size()) {
      break;
    }
    if ((head.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD) {
      return attributes.substr(sizeof head, head.nla_len - sizeof head);
    }
    attributes.remove_prefix(std::min<size_t>(NLA_ALIGN(head.nla_len), attributes.size()));
  }
  return {};
}

}  // namespace

std::vector<RefusedPacket> parse_refused_packets(std::string_view datagram) {
  std::vector<RefusedPacket> packets;
  nlmsghdr head;
  while (datagram.size() >= sizeof head) {
    ::memcpy(&head, datagram.data(), sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > datagram.size()) {
      break;
    }
    constexpr size_t kHeads = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(nfgenmsg));
    if (head.nlmsg_type == kPacketMessage && head.nlmsg_len >= kHeads) {
      const auto message = datagram.substr(kHeads, head.nlmsg_len - kHeads);
      if (const auto packet = parse_packet(payload_of(message))) {
        packets.push_back(*packet);
      }
    }
    datagram.remove_prefix(std::min<size_t>(NLMSG_ALIGN(head.nlmsg_len), datagram.size()));
  }
  return packets;
}

}  // namespace dns
