#include "model/network_policy.h"

#include <gtest/gtest.h>

namespace model {
namespace {

using Texts = std::vector<std::string>;

base::Result<NetworkPolicy> allow(Texts entries) {
  return make_network_policy("allow", std::move(entries), "network");
}

TEST(NetworkPolicy, entries_are_kept_in_one_form_and_once) {
  const auto policy =
      allow({"192.0.2.7", "192.0.2.7/32", "192.0.2.0/24", "Example.COM.", "*.Example.com", "a_b"});
  ASSERT_TRUE(policy.has_value()) << policy.error().message;
  EXPECT_EQ(policy->allow,
            (Texts{"192.0.2.7", "192.0.2.0/24", "example.com", "*.example.com", "a_b"}));
}

TEST(NetworkPolicy, what_cannot_be_enforced_is_refused_by_name) {
  const std::string label(64, 'a');
  for (const std::string& entry : {std::string(),
                                   std::string("."),
                                   std::string("*"),
                                   std::string("*.*.a"),
                                   std::string("a.*.b"),
                                   std::string("https://a.b"),
                                   std::string("a.b/c"),
                                   std::string("a.b:443"),
                                   std::string("::1"),
                                   std::string("2001:db8::/32"),
                                   std::string("b\xc3\xbc"
                                               "cher.example"),
                                   std::string("1.2.3"),
                                   std::string("1.2.3.256"),
                                   std::string("01.2.3.4"),
                                   std::string("10.0.0.0/33"),
                                   std::string("10.0.0.0/"),
                                   std::string("10.0.0.1/24"),
                                   std::string("127.0.0.1"),
                                   std::string("169.254.169.254"),
                                   std::string("169.254.0.0/16"),
                                   std::string("224.0.0.1"),
                                   std::string("a b"),
                                   std::string("-a.b"),
                                   std::string("a..b"),
                                   label + ".b",
                                   label.substr(1) + "." + label.substr(1) + "." + label.substr(1) +
                                       "." + label.substr(1) + ".b",
                                   std::string("a\0b", 3)}) {
    const auto policy = allow({"ok.example", entry});
    ASSERT_FALSE(policy.has_value()) << entry;
    EXPECT_EQ(policy.error().code, base::ErrorCode::invalid_field) << entry;
    EXPECT_EQ(policy.error().details.front().second, "network.allow") << entry;
  }
}

TEST(NetworkPolicy, a_list_goes_with_allow_and_with_nothing_else) {
  EXPECT_EQ(make_network_policy("allow", std::nullopt, "n").error().code,
            base::ErrorCode::missing_field);
  EXPECT_FALSE(make_network_policy("open", Texts{}, "n").has_value());
  EXPECT_FALSE(make_network_policy("vpn", std::nullopt, "n").has_value());
  EXPECT_TRUE(allow({}).has_value());
  EXPECT_TRUE(allow(Texts(256, "a.b")).has_value());
  EXPECT_FALSE(allow(Texts(257, "a.b")).has_value());
}

TEST(NetworkPolicy, its_text_is_read_back) {
  for (const auto* text : {"open", "none", "allow", "allow 0.0.0.0/0 *.a.b 192.0.2.1"}) {
    const auto policy = parse_network_policy(text);
    ASSERT_TRUE(policy.has_value()) << text;
    EXPECT_EQ(to_text(*policy), text);
  }
  for (const auto* text : {"", "allow ", "open a.b", "allow 127.0.0.1"}) {
    EXPECT_FALSE(parse_network_policy(text).has_value()) << text;
  }
}

TEST(AllowList, ranges_inside_others_are_left_out) {
  const auto list = allow_list(
      *allow({"10.1.2.3", "10.0.0.0/8", "10.255.255.255", "9.9.9.9", "10.0.0.0/16", "a.b"}));
  EXPECT_EQ(list.ranges,
            (std::vector<AddressRange>{{0x09090909, 0x09090909}, {0x0a000000, 0x0affffff}}));
  EXPECT_EQ(list.names, Texts{"a.b"});
  EXPECT_TRUE(list.allows_address(0x0a010203));
  EXPECT_FALSE(list.allows_address(0x0b000000));
  const auto all = allow_list(*allow({"0.0.0.0/0"}));
  EXPECT_TRUE(all.allows_address(0) && all.allows_address(0xffffffff));
}

TEST(AllowList, a_star_means_names_below_at_any_depth_and_not_the_name_itself) {
  const auto list = allow_list(*allow({"*.example.com", "one.test"}));
  EXPECT_TRUE(list.allows_name("a.example.com"));
  EXPECT_TRUE(list.allows_name("a.b.example.com"));
  EXPECT_TRUE(list.allows_name("one.test"));
  EXPECT_FALSE(list.allows_name("example.com"));
  EXPECT_FALSE(list.allows_name(".example.com"));
  EXPECT_FALSE(list.allows_name("evilexample.com"));
  EXPECT_FALSE(list.allows_name("a.one.test"));
}

TEST(AllowList, private_and_unreachable_addresses_are_known) {
  for (const auto* text : {"10.0.0.1", "100.64.0.1", "172.31.0.1", "192.168.1.1"}) {
    EXPECT_TRUE(is_private(*parse_ipv4(text))) << text;
  }
  for (const auto* text :
       {"0.0.0.0", "127.0.0.53", "169.254.169.254", "239.1.1.1", "255.255.255.255"}) {
    EXPECT_TRUE(is_never_reachable(*parse_ipv4(text))) << text;
  }
  for (const auto* text : {"8.8.8.8", "172.32.0.1", "198.51.100.2", "100.128.0.1"}) {
    EXPECT_FALSE(is_private(*parse_ipv4(text)) || is_never_reachable(*parse_ipv4(text))) << text;
  }
}

}  // namespace
}  // namespace model
