#include "node/refusals.h"

#include <gtest/gtest.h>

namespace node {
namespace {

using wire::json::Object;

base::Result<Refusal> parse(const Object& line) {
  wire::json::Reader reader(line);
  return parse_refusal(reader);
}

Refusal refusal_of(std::string subject, int64_t more = 0) {
  return {.reason = "name_refused", .subject = std::move(subject), .message = {}, .more = more};
}

TEST(Refusals, a_name_and_an_address_are_read) {
  const auto name = parse({{"name", "a.example.com"}, {"unreachable", false}, {"more", 3}});
  ASSERT_TRUE(name.has_value()) << name.error().message;
  EXPECT_EQ(name->reason, "name_refused");
  EXPECT_EQ(name->subject, "a.example.com");
  EXPECT_EQ(name->more, 3);
  const auto address =
      parse({{"address", "192.0.2.7"}, {"protocol", 6}, {"port", 443}, {"more", 0}});
  ASSERT_TRUE(address.has_value()) << address.error().message;
  EXPECT_EQ(address->reason, "address_refused");
  EXPECT_EQ(address->subject, "192.0.2.7 port 443 (tcp)");
  EXPECT_EQ(parse({{"address", "192.0.2.7"}, {"protocol", 1}, {"port", 0}, {"more", 0}})->subject,
            "192.0.2.7 (icmp)");
}

TEST(Refusals, what_nobody_can_have_asked_for_is_malformed) {
  for (const Object& line : std::vector<Object>{
           {{"more", 0}},
           {{"name", ""}, {"unreachable", false}, {"more", 0}},
           {{"name", "a\nb"}, {"unreachable", false}, {"more", 0}},
           {{"name", std::string(254, 'a')}, {"unreachable", false}, {"more", 0}},
           {{"name", "a.b"}, {"unreachable", false}, {"more", -1}},
           {{"name", "a.b"}, {"unreachable", false}, {"more", int64_t{1} << 40}},
           {{"address", "x"}, {"protocol", 6}, {"port", 1}, {"more", 0}},
           {{"address", "192.0.2.7"}, {"protocol", 256}, {"port", 1}, {"more", 0}},
           {{"address", "192.0.2.7"}, {"protocol", 6}, {"port", 65'536}, {"more", 0}}}) {
    EXPECT_FALSE(parse(line).has_value()) << wire::json::serialize(line);
  }
}

TEST(Refusals, each_is_told_once_while_it_is_remembered) {
  RefusalLimit limit;
  base::SteadyTime now{std::chrono::hours(100)};
  EXPECT_TRUE(limit.admit(refusal_of("a"), now));
  EXPECT_FALSE(limit.admit(refusal_of("a"), now));
  EXPECT_TRUE(limit.admit(refusal_of("b"), now));
  EXPECT_EQ(limit.take_untold(), 0);
  now += RefusalLimit::kRememberedFor;
  EXPECT_TRUE(limit.admit(refusal_of("a"), now));
}

TEST(Refusals, a_flood_is_counted_and_not_told) {
  RefusalLimit limit;
  base::SteadyTime now{std::chrono::hours(100)};
  int told = 0;
  for (int i = 0; i < 1000; ++i) {
    told += limit.admit(refusal_of(std::to_string(i)), now) ? 1 : 0;
  }
  EXPECT_EQ(told, RefusalLimit::kAtOnce);
  now += RefusalLimit::kOneMoreEach;
  EXPECT_TRUE(limit.admit(refusal_of("next", 7), now));
  EXPECT_FALSE(limit.admit(refusal_of("one more"), now));
  EXPECT_EQ(limit.take_untold(), 1000 - RefusalLimit::kAtOnce + 7 + 1);
  EXPECT_EQ(limit.take_untold(), 0);
}

TEST(Refusals, what_is_sent_without_a_route_is_counted_by_the_kernel) {
  EXPECT_EQ(sent_without_route("Ip: Forwarding OutDiscards OutNoRoutes More\n"
                               "Ip: 1 2 17 4\nIcmp: OutNoRoutes\nIcmp: 9\n"),
            17);
  EXPECT_EQ(sent_without_route("Ip: Forwarding OutNoRoutes\nIp: 1\n"), std::nullopt);
  EXPECT_EQ(sent_without_route("Ip: Forwarding\nIp: 1\n"), std::nullopt);
  EXPECT_EQ(sent_without_route(""), std::nullopt);
}

}  // namespace
}  // namespace node
