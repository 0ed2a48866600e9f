#include "dns/refused_packet.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <string.h>

#include <string>

namespace dns {
namespace {

using namespace std::string_literals;

// From 10.201.0.5 to 192.0.2.7, TCP, port 443.
const std::string kPacket =
    "\x45\0\0\x3c\0\0\x40\0\x40\x06\0\0\x0a\xc9\0\x05\xc0\0\x02\x07\x90\x00\x01\xbb\0\0\0\0"s;
constexpr RefusedPacket kRead{.from = 0x0ac90005, .to = 0xc0000207, .protocol = 6, .port = 443};

std::string attribute(uint16_t type, const std::string& bytes) {
  const nlattr head{.nla_len = static_cast<uint16_t>(sizeof(nlattr) + bytes.size()),
                    .nla_type = type};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  text += bytes;
  text.resize(NLA_ALIGN(text.size()), '\0');
  return text;
}

std::string message(const std::string& packet, uint16_t type = 0x0400) {
  const std::string attributes = attribute(NFULA_PREFIX, "x\0"s) + attribute(NFULA_PAYLOAD, packet);
  nlmsghdr head{};
  head.nlmsg_len = static_cast<uint32_t>(sizeof head + 4 + attributes.size());
  head.nlmsg_type = type;
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + "\2\0\x5b\x01"s +
         attributes;
}

TEST(RefusedPackets, each_message_of_a_datagram_is_one) {
  EXPECT_EQ(parse_refused_packets(message(kPacket)), std::vector{kRead});
  EXPECT_EQ(parse_refused_packets(message(kPacket) + message(kPacket)),
            (std::vector{kRead, kRead}));
}

TEST(RefusedPackets, a_packet_without_ports_has_none) {
  RefusedPacket expected = kRead;
  expected.port = 0;
  std::string later = kPacket;  // a fragment that is not the first
  later[7] = 1;
  EXPECT_EQ(parse_refused_packets(message(later)), std::vector{expected});
  EXPECT_EQ(parse_refused_packets(message(kPacket.substr(0, 20))), std::vector{expected});
  std::string ping = kPacket;
  ping[9] = 1;
  expected.protocol = 1;
  EXPECT_EQ(parse_refused_packets(message(ping)), std::vector{expected});
}

TEST(RefusedPackets, what_has_another_form_is_left_out) {
  EXPECT_TRUE(parse_refused_packets("").empty());
  EXPECT_TRUE(parse_refused_packets(message(kPacket, NLMSG_DONE)).empty());
  EXPECT_TRUE(parse_refused_packets(message("\x60"s + kPacket.substr(1))).empty());
  EXPECT_TRUE(parse_refused_packets(message("\x45")).empty());
  const std::string whole = message(kPacket);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(parse_refused_packets(whole.substr(0, size)).empty()) << size;
  }
}

}  // namespace
}  // namespace dns
