#include "dns/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dns {
namespace {

model::AllowList list_of(std::vector<std::string> entries) {
  return model::allow_list(*model::make_network_policy("allow", std::move(entries), "network"));
}

Reply reply_with(const std::vector<std::string>& addresses, uint32_t ttl_sec = 60) {
  Reply reply;
  for (const std::string& text : addresses) {
    reply.addresses.push_back({.address = *model::parse_ipv4(text), .ttl_sec = ttl_sec});
  }
  return reply;
}

TEST(Server, ends_where_the_node_has_gone_before_it_began) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  ::close(ends[0]);
  net::EventLoop loop;
  Server server(loop, base::Fd(ends[1]));
  server.run();
}

TEST(FilterReply, public_addresses_are_opened_and_told) {
  std::vector<Address> to_open;
  const auto reply = filter_reply(reply_with({"192.0.2.7"}), list_of({"a.b"}), to_open);
  ASSERT_EQ(reply.addresses.size(), 1U);
  ASSERT_EQ(to_open.size(), 1U);
  EXPECT_EQ(to_open[0].ttl_sec, 60U);
}

TEST(FilterReply, addresses_within_the_host_and_private_networks_are_neither) {
  for (const auto* text : {"127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "0.0.0.0"}) {
    std::vector<Address> to_open;
    const auto alone = filter_reply(reply_with({text}), list_of({"a.b"}), to_open);
    EXPECT_EQ(alone.code, Code::no_such_name) << text;
    EXPECT_TRUE(alone.addresses.empty() && alone.aliases.empty() && to_open.empty()) << text;
    const auto mixed = filter_reply(reply_with({text, "192.0.2.7"}), list_of({"a.b"}), to_open);
    EXPECT_EQ(mixed.addresses.size(), 1U) << text;
    EXPECT_EQ(to_open.size(), 1U) << text;
  }
}

TEST(FilterReply, a_private_address_that_the_list_names_is_told_and_needs_no_opening) {
  std::vector<Address> to_open;
  const auto list = list_of({"a.b", "10.0.0.0/8", "0.0.0.0/0"});
  EXPECT_EQ(filter_reply(reply_with({"10.1.2.3"}), list, to_open).addresses.size(), 1U);
  EXPECT_EQ(filter_reply(reply_with({"127.0.0.1"}), list, to_open).code, Code::no_such_name);
  EXPECT_TRUE(to_open.empty());
}

TEST(FilterReply, times_are_within_bounds_and_none_is_told_that_is_not_open_so_long) {
  std::vector<Address> to_open;
  const auto brief = filter_reply(reply_with({"192.0.2.7"}, 0), list_of({"a.b"}), to_open);
  EXPECT_EQ(brief.addresses[0].ttl_sec, 0U);
  EXPECT_EQ(to_open[0].ttl_sec, kHoldSecondsMin);
  to_open.clear();
  auto endless = reply_with({"192.0.2.7"}, UINT32_MAX);
  endless.aliases.push_back({.wire_name = "x", .ttl_sec = UINT32_MAX});
  const auto held = filter_reply(std::move(endless), list_of({"a.b"}), to_open);
  EXPECT_EQ(held.addresses[0].ttl_sec, kHoldSecondsMax);
  EXPECT_EQ(held.aliases[0].ttl_sec, kHoldSecondsMax);
  EXPECT_EQ(to_open[0].ttl_sec, kHoldSecondsMax);
}

TEST(FilterReply, a_name_without_addresses_stays_one) {
  std::vector<Address> to_open;
  EXPECT_EQ(filter_reply(Reply{}, list_of({"a.b"}), to_open).code, Code::no_error);
  EXPECT_EQ(filter_reply(Reply{.code = Code::no_such_name}, list_of({}), to_open).code,
            Code::no_such_name);
}

}  // namespace
}  // namespace dns
