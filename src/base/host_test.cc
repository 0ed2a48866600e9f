#include "base/host.h"

#include <gtest/gtest.h>

#include <string>

namespace base {
namespace {

TEST(Host, names_are_labels_with_dots_between) {
  for (const std::string& name :
       {std::string("a"), std::string("a.example.com"), std::string("_dns.xn--bcher-kva.test"),
        std::string(63, 'a') + ".b"}) {
    EXPECT_TRUE(is_host_name(name)) << name;
  }
  std::string longest(63, 'a');
  longest += "." + longest + "." + longest + ".";
  EXPECT_TRUE(is_host_name(longest + std::string(kHostNameBytesMax - longest.size(), 'a')));
  for (const std::string& name :
       {std::string(), std::string("."), std::string("a."), std::string(".a"), std::string("a..b"),
        std::string("A"), std::string("a b"), std::string("a\0b", 3), std::string("a:80"),
        std::string(64, 'a'), longest + std::string(kHostNameBytesMax - longest.size(), 'a') + "a",
        std::string(127, 'a') + "." + std::string(127, 'a')}) {
    EXPECT_FALSE(is_host_name(name)) << name;
  }
}

TEST(Host, ports_are_numbers_without_zero) {
  EXPECT_EQ(parse_port("1"), 1);
  EXPECT_EQ(parse_port("65535"), 65'535);
  for (const auto* text : {"", "0", "65536", "-1", "+1", " 1", "1 ", "0x1", "http"}) {
    EXPECT_FALSE(parse_port(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace base
