#include "node/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/sys.h"
#include "node/network_testing.h"
#include "node/program.h"

namespace node {
namespace {

using base::cat;

TEST_F(RealNetwork, a_place_has_its_address_route_and_sysctls) {
  const auto place = make();
  EXPECT_EQ(place.address, network_->address(place.index));
  const Inside inside(place.name_space);
  const auto addresses = run_program({"ip", "-o", "addr"}).value();
  EXPECT_TRUE(addresses.contains(cat("inet ", place.address, "/32"))) << addresses;
  EXPECT_FALSE(addresses.contains("inet6")) << addresses;
  const auto routes = run_program({"ip", "route"}).value();
  EXPECT_TRUE(routes.contains("default via 169.254.1.1 dev eth0")) << routes;
  const auto ports =
      base::sys::read_file("/proc/sys/net/ipv4/ip_unprivileged_port_start", 16).value();
  EXPECT_EQ(ports, "0\n");
  const auto neighbours = run_program({"ip", "neigh"}).value();
  EXPECT_TRUE(neighbours.contains("PERMANENT")) << neighbours;
  const auto groups = base::sys::read_file("/proc/sys/net/ipv4/ping_group_range", 64).value();
  EXPECT_TRUE(groups == "0\t4294967294\n" || groups == "0\t2147483647\n") << groups;
}

TEST_F(RealNetwork, the_host_end_has_no_ipv6) {
  const auto place = make();
  const auto setting =
      base::sys::read_file(cat("/proc/sys/net/ipv6/conf/tstn-", place.index, "/disable_ipv6"), 16);
  EXPECT_EQ(setting.value(), "1\n");
}

TEST_F(RealNetwork, the_caller_is_back_in_its_own_name_space) {
  struct stat before{};
  struct stat after{};
  ASSERT_EQ(::stat("/proc/thread-self/ns/net", &before), 0);
  const auto place = make();
  ASSERT_EQ(::stat("/proc/thread-self/ns/net", &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(RealNetwork, loopback_works_inside) {
  const auto place = make();
  const Inside inside(place.name_space);
  const auto listener = listen_at("127.0.0.1", 80);
  EXPECT_EQ(connect_to("127.0.0.1", kConnectMillisecondsMax, 80), 0);
}

TEST_F(RealNetwork, a_listener_beyond_the_host_is_reached_with_the_hosts_address) {
  const Outside outside("tsto0");
  const auto place = make();
  base::Fd listener;
  {
    const Inside inside(outside.name_space());
    listener = listen_at("198.51.100.2");
  }
  ASSERT_EQ(connect_from(place, "198.51.100.2", kConnectMillisecondsMax), 0);
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  const base::Fd accepted(::accept(listener.get(), reinterpret_cast<sockaddr*>(&peer), &size));
  EXPECT_EQ(ntohl(peer.sin_addr.s_addr), 0xc6336401U);  // 198.51.100.1
}

TEST_F(RealNetwork, the_very_first_packet_arrives_and_is_answered) {
  const Outside outside("tsto0");
  base::Fd listener;
  {
    const Inside inside(outside.name_space());
    listener = base::Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto here = address_of("198.51.100.2", kPort);
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
  }
  // Datagrams are not sent again: a link that is not quite up would lose one of them.
  const auto place = make();
  const Inside inside(place.name_space);
  const base::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto there = address_of("198.51.100.2", kPort);
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
  ASSERT_EQ(::send(socket.get(), "a", 1, 0), 1);
  pollfd watched{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&watched, 1, kConnectMillisecondsMax), 1);
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  char byte = 0;
  ASSERT_EQ(::recvfrom(listener.get(), &byte, 1, 0, reinterpret_cast<sockaddr*>(&peer), &size), 1);
  ASSERT_EQ(::sendto(listener.get(), "b", 1, 0, reinterpret_cast<sockaddr*>(&peer), size), 1);
  watched.fd = socket.get();
  EXPECT_EQ(::poll(&watched, 1, kConnectMillisecondsMax), 1);
}

TEST_F(RealNetwork, another_sandbox_is_not_reached) {
  const auto first = make();
  const auto second = make();
  base::Fd listener;
  {
    const Inside inside(second.name_space);
    listener = listen_at("0.0.0.0");
    EXPECT_EQ(connect_to(second.address, kConnectMillisecondsMax), 0);
  }
  EXPECT_NE(connect_from(first, second.address, kSilenceMilliseconds), 0);
}

// One that was killed leaves its firewall behind.
TEST_F(RealNetwork, a_node_whose_prefix_begins_with_anothers_is_no_business_of_that_one) {
  const auto other = Network::open({.prefix = "tst", .subnet = "10.253.128.0/24"}).value();
  const auto third = Network::open({.prefix = "tstn1", .subnet = "10.253.129.0/24"}).value();
  const auto place = make();
  const base::Fd listener = network_->open_gateway_socket().value();
  EXPECT_EQ(connect_from(place, "169.254.1.1", kConnectMillisecondsMax, 80), 0);
  const auto of_third = third->make().value();
  EXPECT_TRUE(other->reap_unknown().has_value());
  EXPECT_TRUE(network_->reap_unknown().has_value());
  EXPECT_TRUE(has_interface(cat("tstn-", place.index)));
  EXPECT_TRUE(has_interface(cat("tstn1-", of_third.index)));
  third->release(of_third.index);
  EXPECT_TRUE(other->close().has_value());
  EXPECT_TRUE(third->close().has_value());
}

TEST_F(RealNetwork, the_host_is_not_reached_on_any_of_its_addresses) {
  const Outside outside("tsto0");
  const auto place = make();
  const auto listener = listen_at("0.0.0.0");
  ASSERT_EQ(connect_to("198.51.100.1", kConnectMillisecondsMax), 0);
  EXPECT_NE(connect_from(place, "198.51.100.1", kSilenceMilliseconds), 0);
  EXPECT_NE(connect_from(place, "169.254.1.1", kSilenceMilliseconds), 0);
}

TEST_F(RealNetwork, metadata_addresses_are_not_reached) {
  const Outside outside("tsto0");
  {
    const Inside inside(outside.name_space());
    Outside::ip("addr add 169.254.169.254/32 dev beyond");
  }
  Outside::ip("route add 169.254.169.254/32 via 198.51.100.2");
  base::Fd listener;
  {
    const Inside inside(outside.name_space());
    listener = listen_at("0.0.0.0");
  }
  ASSERT_EQ(connect_to("169.254.169.254", kConnectMillisecondsMax), 0);  // the host may
  const auto place = make();
  EXPECT_NE(connect_from(place, "169.254.169.254", kSilenceMilliseconds), 0);
}

TEST_F(RealNetwork, a_sandbox_is_not_reached_from_beyond_the_host) {
  const Outside outside("tsto0");
  const auto place = make();
  base::Fd listener;
  {
    const Inside inside(place.name_space);
    listener = listen_at("0.0.0.0");
  }
  const Inside inside(outside.name_space());
  Outside::ip("route add 10.253.0.0/24 via 198.51.100.1");
  EXPECT_NE(connect_to(place.address, kSilenceMilliseconds), 0);
}

TEST_F(RealNetwork, a_closed_place_is_without_a_route_until_it_is_opened_again) {
  const Outside outside("tsto0");
  const auto place = make();
  base::Fd listener;
  {
    const Inside inside(outside.name_space());
    listener = listen_at("198.51.100.2");
  }
  ASSERT_TRUE(network_->set_policy(place.index, kNone, 1).has_value());
  EXPECT_EQ(connect_from(place, "198.51.100.2", kSilenceMilliseconds), ENETUNREACH);
  {
    const Inside inside(place.name_space);
    const base::Fd own = listen_at(place.address);
    EXPECT_EQ(connect_to(place.address, kConnectMillisecondsMax), 0) << "its own address";
    const base::Fd query(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto names = address_of("169.254.1.1", 53);
    EXPECT_EQ(
        ::sendto(query.get(), "?", 1, 0, reinterpret_cast<const sockaddr*>(&names), sizeof names),
        -1);
    EXPECT_EQ(errno, ENETUNREACH);
  }
  ASSERT_TRUE(network_->set_policy(place.index, kOpen, 1).has_value());
  EXPECT_EQ(connect_from(place, "198.51.100.2", kConnectMillisecondsMax), 0);
  ASSERT_TRUE(network_->set_policy(place.index, kNone, 1).has_value());
  EXPECT_EQ(connect_from(place, "198.51.100.2", kSilenceMilliseconds), ENETUNREACH);
}

TEST_F(RealNetwork, a_forward_policy_of_drop_does_not_stop_sandboxes) {
  if (!run_program({"iptables", "-w", "-P", "FORWARD", "DROP"})) {
    GTEST_SKIP() << "no iptables";
  }
  const Outside outside("tsto0");
  base::Fd listener;
  {
    const Inside inside(outside.name_space());
    listener = listen_at("198.51.100.2");
  }
  const auto before = make();
  EXPECT_NE(connect_from(before, "198.51.100.2", kSilenceMilliseconds), 0);
  const auto again = Network::open({.prefix = "tstn", .subnet = kSubnet});  // twice: no doubles
  const auto third = Network::open({.prefix = "tstn", .subnet = kSubnet});
  ASSERT_TRUE(again.has_value() && third.has_value());
  EXPECT_EQ(connect_from(before, "198.51.100.2", kConnectMillisecondsMax), 0);
  const auto rules = run_program({"iptables", "-w", "-S", "FORWARD"}).value();
  EXPECT_EQ(rules.find("-i tstn-+"), rules.rfind("-i tstn-+")) << rules;
  ASSERT_TRUE((*third)->close().has_value());
  EXPECT_FALSE(run_program({"iptables", "-w", "-S", "FORWARD"}).value().contains("tstn"));
}

TEST_F(RealNetwork, opening_again_keeps_the_firewall_effective) {
  auto again = Network::open({.prefix = "tstn", .subnet = kSubnet});
  ASSERT_TRUE(again.has_value());
  const auto rules = run_program({"nft", "list", "table", "inet", "tstn_sandbox"}).value();
  EXPECT_EQ(rules.find("chain forward"), rules.rfind("chain forward"));
}

TEST_F(RealNetwork, reaping_spares_what_was_adopted) {
  auto kept = make();
  auto unknown = make();
  auto again = Network::open({.prefix = "tstn", .subnet = kSubnet}).value();
  ASSERT_TRUE(again->adopt(kept.index).has_value());
  ASSERT_TRUE(again->reap_unknown().has_value());
  EXPECT_EQ(interfaces(), 1U);
  EXPECT_TRUE(has_interface(cat("tstn-", kept.index)));
  const auto next = again->make().value();
  EXPECT_NE(next.index, kept.index);
}

TEST_F(RealNetwork, released_indices_come_back_after_all_others) {
  auto small = Network::open({.prefix = "tstns", .subnet = "10.253.1.0/29"}).value();
  std::vector<NetworkPlace> places;
  places.reserve(small->capacity());
  for (uint32_t i = 0; i < small->capacity(); ++i) {
    places.push_back(small->make().value());
  }
  const auto full = small->make();
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, base::ErrorCode::overloaded);
  const auto index = places[2].index;
  places.erase(places.begin() + 2);
  small->release(index);
  const auto again = small->make();  // whether its old veth is gone by now or not
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->index, index);
  for (uint32_t i = 0; i < small->capacity(); ++i) {
    small->release(i);
  }
  EXPECT_TRUE(small->reap_unknown().has_value());
  EXPECT_TRUE(small->close().has_value());
}

TEST_F(RealNetwork, no_index_is_given_beyond_the_places_there_are) {
  auto few = Network::open({.prefix = "tstns", .subnet = kSubnet, .places_max = 2}).value();
  EXPECT_EQ(few->capacity(), 2U);
  for (int round = 0; round < 3; ++round) {
    std::vector<NetworkPlace> places;
    places.push_back(few->make().value());
    places.push_back(few->make().value());
    EXPECT_EQ(few->make().error().code, base::ErrorCode::overloaded);
    for (const NetworkPlace& place : places) {
      EXPECT_LT(place.index, 2U);
      few->release(place.index);
    }
  }
  EXPECT_TRUE(few->reap_unknown().has_value());
  EXPECT_TRUE(few->close().has_value());
}

TEST_F(RealNetwork, a_failing_make_leaves_nothing_behind) {
  const auto before = base::sys::list_folder("/proc/self/fd").value().size();
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  int failed = 0;
  // One descriptor more each time: every step that needs one fails once.
  for (rlim_t allowed = 3; allowed < before + 8; ++allowed) {
    const rlimit lower{.rlim_cur = allowed, .rlim_max = old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
    const auto place = network_->make();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
    failed += place ? 0 : 1;
    if (place) {
      network_->release(place->index);
    }
  }
  EXPECT_GT(failed, 2);
  EXPECT_EQ(base::sys::list_folder("/proc/self/fd").value().size(), before);
}

TEST_F(RealNetwork, the_cost_of_each_call_is_reported) {
  constexpr int kRounds = 50;
  using std::chrono::steady_clock;
  const auto each = [](steady_clock::time_point since) {
    const auto took =
        std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - since);
    return static_cast<long long>(took.count()) / kRounds;
  };
  std::vector<NetworkPlace> places;
  places.reserve(kRounds);
  auto since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    places.push_back(make());
  }
  std::printf("network: make %lld", each(since));
  since = steady_clock::now();
  for (const auto& place : places) {
    ASSERT_TRUE(network_->set_policy(place.index, kNone, 1).has_value());
  }
  std::printf(", close %lld", each(since));
  since = steady_clock::now();
  for (const auto& place : places) {
    ASSERT_TRUE(network_->set_policy(place.index, kOpen, 1).has_value());
  }
  std::printf(", open %lld", each(since));
  since = steady_clock::now();
  places.clear();
  std::printf(", drop %lld us each\n", each(since));
}

TEST(Subnet, addresses_never_end_in_0_or_255) {
  const auto subnet = parse_subnet("10.201.0.0/16").value();
  EXPECT_EQ(subnet.capacity(), 65'024U);
  EXPECT_EQ(subnet.address(0), 0x0ac90001U);
  EXPECT_EQ(subnet.address(253), 0x0ac900feU);
  EXPECT_EQ(subnet.address(254), 0x0ac90101U);
  EXPECT_EQ(subnet.address(subnet.capacity() - 1), 0x0ac9fffeU);
}

TEST(Subnet, small_ones_leave_their_first_and_last_address_out) {
  const auto subnet = parse_subnet("10.0.0.8/29").value();
  EXPECT_EQ(subnet.capacity(), 6U);
  EXPECT_EQ(subnet.address(0), 0x0a000009U);
  EXPECT_EQ(subnet.address(5), 0x0a00000eU);
}

TEST(Subnet, what_is_none_is_refused) {
  for (const auto* text : {"", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/30", "10.0.0.1/24",
                           "0.0.0.0/0", "10.0.0/24", "fd00::/64", "10.0.0.0/24; drop"}) {
    EXPECT_FALSE(parse_subnet(text).has_value()) << text;
  }
}

TEST(Network, what_is_no_prefix_is_refused) {
  for (const auto* prefix : {"", "s-1", "SG", "toolongname", "s g", "1a", "../a"}) {
    const auto network = Network::open({.prefix = prefix, .subnet = "10.253.0.0/24"});
    ASSERT_FALSE(network.has_value()) << prefix;
    EXPECT_EQ(network.error().code, base::ErrorCode::invalid_field);
  }
}

}  // namespace
}  // namespace node
