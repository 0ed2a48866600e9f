#include "node/resolv.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace node {
namespace {

TEST(ResolvConf, real_servers_search_and_options_are_taken_over) {
  EXPECT_EQ(sandbox_resolv_conf("# by hand\nnameserver 10.0.0.2\nsearch example.org lan\n"
                                "options ndots:2 timeout:1\n",
                                ""),
            "search example.org lan\nnameserver 10.0.0.2\noptions ndots:2 timeout:1\n");
}

TEST(ResolvConf, a_loopback_stub_gives_way_to_its_upstreams) {
  EXPECT_EQ(sandbox_resolv_conf("nameserver 127.0.0.53\nsearch lan\n",
                                "nameserver 192.168.1.1\nnameserver 192.168.1.2\n"),
            "search lan\nnameserver 192.168.1.1\nnameserver 192.168.1.2\n");
}

TEST(ResolvConf, upstreams_are_not_asked_where_the_host_names_a_real_server) {
  EXPECT_EQ(sandbox_resolv_conf("nameserver 127.0.0.1\nnameserver 10.0.0.2\n",
                                "nameserver 192.168.1.1\n"),
            "nameserver 10.0.0.2\n");
}

TEST(ResolvConf, at_most_three_servers_are_named) {
  EXPECT_EQ(sandbox_resolv_conf("nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n"
                                "nameserver 10.0.0.4\n",
                                ""),
            "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n");
}

TEST(ResolvConf, ipv6_and_nonsense_are_left_out) {
  EXPECT_EQ(sandbox_resolv_conf("nameserver ::1\nnameserver fd00::1\nnameserver\nnameserver x\n"
                                "nameserver 0.0.0.0\n\tnameserver\t10.0.0.1\t# x\r\n",
                                ""),
            "nameserver 10.0.0.1\n");
}

TEST(ResolvConf, without_any_server_there_is_no_line) {
  EXPECT_EQ(sandbox_resolv_conf("", ""), "");
}

TEST(ResolvConf, a_search_list_is_bounded) {
  const std::string domain(100, 'a');
  const auto text = sandbox_resolv_conf(
      base::cat("search ", domain, ' ', domain, ' ', domain, ' ', domain, '\n'), "");
  EXPECT_EQ(text, base::cat("search ", domain, ' ', domain, '\n'));
}

}  // namespace
}  // namespace node
