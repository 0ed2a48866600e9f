#include "node/name_server.h"

#include <gtest/gtest.h>

namespace node {
namespace {

TEST(NameServers, addresses_with_and_without_a_port_are_taken) {
  const auto servers = parse_name_servers("192.0.2.1,127.0.0.1:5353");
  ASSERT_TRUE(servers.has_value()) << servers.error().message;
  EXPECT_EQ(*servers, (std::vector<NameServerAddress>{{0xc0000201, 53}, {0x7f000001, 5353}}));
  EXPECT_TRUE(parse_name_servers("")->empty());
}

TEST(NameServers, what_is_no_list_of_them_is_refused) {
  for (const auto* text : {"a.b", "192.0.2.1:", "192.0.2.1:0", "192.0.2.1,", "::1",
                           "192.0.2.1:99999", "1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1"}) {
    EXPECT_FALSE(parse_name_servers(text).has_value()) << text;
  }
}

TEST(NameServers, the_hosts_are_those_of_its_file_with_loopback_ones) {
  EXPECT_EQ(name_servers_of("# x\nsearch a\nnameserver 127.0.0.53\nnameserver fe80::1\n"
                            "nameserver\t192.0.2.1 \n"),
            (std::vector<NameServerAddress>{{0x7f000035, 53}, {0xc0000201, 53}}));
}

}  // namespace
}  // namespace node
