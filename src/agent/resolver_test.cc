#include "agent/resolver.h"

#include <gtest/gtest.h>

namespace agent {
namespace {

std::vector<std::string> texts(const std::vector<HostAddress>& addresses) {
  std::vector<std::string> out;
  out.reserve(addresses.size());
  for (const HostAddress& address : addresses) {
    out.push_back(address.text());
  }
  return out;
}

TEST(Resolver, reads_addresses_of_both_kinds) {
  EXPECT_EQ(parse_address("127.0.0.1")->text(), "127.0.0.1");
  EXPECT_EQ(parse_address("::1")->text(), "::1");
  EXPECT_FALSE(parse_address("localhost"));
  EXPECT_FALSE(parse_address("127.1"));
  EXPECT_FALSE(parse_address(std::string_view("::1\0x", 5)));
  auto address = parse_address("::1");
  address->set_port(80);
  EXPECT_EQ(address->port(), 80);
}

TEST(Resolver, finds_a_name_in_any_place_of_its_line) {
  constexpr std::string_view kHosts =
      "# 10.0.0.9 db\n10.0.0.1\tweb db # old\n\nbroken db\n::2 DB\r\n10.0.0.3";
  EXPECT_EQ(texts(find_in_hosts(kHosts, "db")), (std::vector<std::string>{"10.0.0.1", "::2"}));
  EXPECT_TRUE(find_in_hosts(kHosts, "old").empty());
  EXPECT_TRUE(find_in_hosts(kHosts, "10.0.0.3").empty());
}

TEST(Resolver, takes_a_bounded_number_of_servers_and_suffixes) {
  const auto config = parse_resolver_config(
      "nameserver 169.254.1.1\nnameserver nonsense\nnameserver ::1\nnameserver 10.0.0.1\n"
      "nameserver 10.0.0.2\nsearch a b c d e f g h\noptions ndots:5\n");
  EXPECT_EQ(texts(config.servers), (std::vector<std::string>{"169.254.1.1", "::1", "10.0.0.1"}));
  EXPECT_EQ(config.servers.front().port(), 53);
  EXPECT_EQ(config.search.size(), kSearchMax);
  EXPECT_TRUE(parse_resolver_config("").servers.empty());
}

}  // namespace
}  // namespace agent
