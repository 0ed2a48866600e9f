// Allow-lists, enforced: places whose packets meet the real firewall, in a host of their own. Needs
// root.
#include "node/egress.h"

#include <poll.h>
#include <sys/socket.h>

#include <optional>

#include "node/network_testing.h"
#include "node/program.h"

namespace node {
namespace {

using base::cat;
using Answer = Egress::Answer;

constexpr std::string_view kServer = "198.51.100.2";
constexpr std::string_view kOther = "198.51.100.9";  // beyond as well
constexpr uint32_t kMark = 0x01020304;
constexpr std::chrono::seconds kHour{3600};

model::NetworkPolicy allow(std::vector<std::string> entries) {
  return model::make_network_policy("allow", std::move(entries), "network").value();
}

uint32_t number(std::string_view address) { return model::parse_ipv4(address).value(); }

class RealEgress : public RealNetwork {
 protected:
  void SetUp() override {
    RealNetwork::SetUp();
    if (IsSkipped()) {
      return;
    }
    outside_.emplace("tsto0");
    Outside::ip(cat("route add ", kOther, "/32 via ", kServer));
    const Inside inside(outside_->name_space());
    Outside::ip(cat("addr add ", kOther, "/32 dev beyond"));
    listener_ = listen_at("0.0.0.0");
  }
  void TearDown() override {
    listener_.reset();
    outside_.reset();
    RealNetwork::TearDown();
  }

  NetworkPlace make_with(std::vector<std::string> entries) {
    auto place = make();
    set(place, std::move(entries));
    return place;
  }
  void set(const NetworkPlace& place, std::vector<std::string> entries, uint32_t mark = kMark) {
    const auto set = network_->set_policy(place.index, allow(std::move(entries)), mark);
    EXPECT_TRUE(set.has_value()) << set.error().message;
  }
  base::Result<void> learn(const NetworkPlace& place, const std::string& name,
                           std::string_view address, std::chrono::seconds holds = kHour) {
    const Answer answer{.address = number(address), .holds = holds};
    return network_->learn(number(place.address), name, {&answer, 1});
  }
  static int reach(const NetworkPlace& place, std::string_view address) {
    return connect_from(place, std::string(address), kConnectMillisecondsMax);
  }
  // A connection from inside and its other end.
  struct Connection {
    base::Fd inner;
    base::Fd outer;

    // Whether a byte comes through, in each direction.
    [[nodiscard]] bool out_passes() const { return passes(inner, outer); }
    [[nodiscard]] bool in_passes() const { return passes(outer, inner); }
    static bool passes(const base::Fd& from, const base::Fd& to) {
      char byte = 'x';
      pollfd watched{to.get(), POLLIN, 0};
      return ::send(from.get(), &byte, 1, MSG_NOSIGNAL) == 1 &&
             ::poll(&watched, 1, kSilenceMilliseconds) == 1 &&
             ::recv(to.get(), &byte, 1, MSG_DONTWAIT) == 1;
    }
  };
  Connection connect(const NetworkPlace& place, std::string_view address) {
    Connection connection;
    {
      const Inside inside(place.name_space);
      connection.inner = base::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const auto to = address_of(std::string(address), kPort);
      EXPECT_EQ(
          ::connect(connection.inner.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    }
    connection.outer = base::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return connection;
  }

  std::optional<Outside> outside_;
  base::Fd listener_;
};

TEST_F(RealEgress, an_address_of_the_list_is_reached_and_another_is_refused_at_once) {
  const auto place = make_with({std::string(kServer)});
  EXPECT_EQ(reach(place, kServer), 0);
  EXPECT_EQ(reach(place, kOther), ECONNREFUSED);
}

TEST_F(RealEgress, a_range_of_the_list_is_reached) {
  EXPECT_EQ(reach(make_with({"198.51.100.0/30", "198.51.100.2"}), kServer), 0);
  EXPECT_NE(reach(make_with({"198.51.100.0/31"}), kServer), 0);
  EXPECT_EQ(reach(make_with({"0.0.0.0/0"}), kOther), 0);
}

TEST_F(RealEgress, an_empty_list_is_nothing_and_other_places_are_as_they_were) {
  const auto open = make();
  const auto place = make_with({});
  EXPECT_NE(reach(place, kServer), 0);
  EXPECT_EQ(reach(open, kServer), 0);
}

TEST_F(RealEgress, a_list_of_everything_reaches_neither_the_host_nor_a_neighbour) {
  const auto place = make_with({"0.0.0.0/0"});
  const auto neighbour = make();
  base::Fd listener;
  {
    const Inside inside(neighbour.name_space);
    listener = listen_at("0.0.0.0");
  }
  const auto host = listen_at("0.0.0.0");
  for (const std::string& address : {neighbour.address, std::string("198.51.100.1"),
                                     std::string("169.254.1.1"), std::string("127.0.0.1")}) {
    EXPECT_NE(connect_from(place, address, kSilenceMilliseconds), 0) << address;
  }
}

TEST_F(RealEgress, what_a_name_resolved_to_is_open_until_its_time_is_up) {
  const auto place = make_with({"*.example.com"});
  EXPECT_NE(reach(place, kServer), 0);
  ASSERT_TRUE(learn(place, "www.example.com", kServer, std::chrono::seconds(1)).has_value());
  EXPECT_EQ(reach(place, kServer), 0);
  // Again, for longer: the end moves.
  ASSERT_TRUE(learn(place, "www.example.com", kServer, std::chrono::seconds(2)).has_value());
  int refused = 0;
  for (int i = 0; i < 100 && refused == 0; ++i) {
    refused = reach(place, kServer);
    ::poll(nullptr, 0, kSilenceMilliseconds);
  }
  EXPECT_EQ(refused, ECONNREFUSED);
}

TEST_F(RealEgress, nothing_is_learnt_for_a_name_or_a_place_that_is_not_allowed) {
  const auto place = make_with({"*.example.com"});
  const auto open = make();
  EXPECT_FALSE(learn(place, "www.example.org", kServer).has_value());
  EXPECT_FALSE(learn(open, "www.example.com", kServer).has_value());
  EXPECT_NE(reach(place, kServer), 0);
}

TEST_F(RealEgress, a_connection_outlives_the_answer_it_was_made_by) {
  const auto place = make_with({"example.com"});
  ASSERT_TRUE(learn(place, "example.com", kServer, std::chrono::seconds(1)).has_value());
  const auto connection = connect(place, kServer);
  for (int i = 0; i < 100 && reach(place, kServer) == 0; ++i) {
    ::poll(nullptr, 0, kSilenceMilliseconds);
  }
  EXPECT_NE(reach(place, kServer), 0);
  EXPECT_TRUE(connection.out_passes());
  EXPECT_TRUE(connection.in_passes());
}

TEST_F(RealEgress, what_is_taken_from_the_list_is_cut_in_both_directions) {
  const auto place = make_with({std::string(kServer), std::string(kOther)});
  const auto cut = connect(place, kServer);
  const auto kept = connect(place, kOther);
  ASSERT_TRUE(cut.out_passes() && cut.in_passes());
  set(place, {std::string(kOther)}, kMark + 1);
  EXPECT_FALSE(cut.in_passes());
  EXPECT_FALSE(cut.out_passes());
  EXPECT_TRUE(kept.in_passes());
  EXPECT_TRUE(kept.out_passes());
}

TEST_F(RealEgress, what_was_learnt_stays_while_its_name_is_on_the_list) {
  const auto place = make_with({"a.example", "b.example"});
  ASSERT_TRUE(learn(place, "a.example", kServer).has_value());
  ASSERT_TRUE(learn(place, "b.example", kOther).has_value());
  set(place, {"b.example", "c.example"}, kMark + 1);
  EXPECT_NE(reach(place, kServer), 0);
  EXPECT_EQ(reach(place, kOther), 0);
}

TEST_F(RealEgress, a_connection_made_while_all_was_open_is_cut_by_a_list) {
  const auto place = make();
  const auto connection = connect(place, kServer);
  ASSERT_TRUE(connection.out_passes());
  set(place, {std::string(kOther)});
  EXPECT_FALSE(connection.in_passes());
  EXPECT_FALSE(connection.out_passes());
}

TEST_F(RealEgress, modes_follow_each_other) {
  const auto place = make_with({std::string(kServer)});
  ASSERT_TRUE(network_->set_policy(place.index, kNone, 1).has_value());
  EXPECT_NE(connect_from(place, std::string(kServer), kSilenceMilliseconds), 0);
  set(place, {std::string(kServer)});
  EXPECT_EQ(reach(place, kServer), 0);
  EXPECT_EQ(reach(place, kOther), ECONNREFUSED);
  ASSERT_TRUE(network_->set_policy(place.index, kOpen, 1).has_value());
  EXPECT_EQ(reach(place, kOther), 0);
}

TEST_F(RealEgress, a_next_sandbox_at_the_address_has_nothing_of_the_last_one) {
  auto small = Network::open({.prefix = "tstns", .subnet = "10.253.1.0/29", .places_max = 1});
  ASSERT_TRUE(small.has_value());
  const Answer answer{.address = number(kServer), .holds = kHour};
  {
    const auto first = (*small)->make().value();
    const auto policy = allow({std::string(kOther), "a.example"});
    ASSERT_TRUE((*small)->set_policy(first.index, policy, kMark).has_value());
    ASSERT_TRUE((*small)->learn(number(first.address), "a.example", {&answer, 1}).has_value());
    (*small)->release(first.index);
  }
  const auto second = (*small)->make().value();
  ASSERT_TRUE((*small)->set_policy(second.index, allow({}), kMark).has_value());
  EXPECT_NE(reach(second, kServer), 0);
  EXPECT_NE(reach(second, kOther), 0);
  (*small)->release(second.index);
  EXPECT_TRUE((*small)->reap_unknown().has_value());
  EXPECT_TRUE((*small)->close().has_value());
}

TEST_F(RealEgress, a_next_node_goes_on_where_the_last_one_ended) {
  const auto place = make_with({"a.example", std::string(kOther)});
  ASSERT_TRUE(learn(place, "a.example", kServer).has_value());
  const auto stranger = make_with({"a.example"});
  ASSERT_TRUE(learn(stranger, "a.example", kServer).has_value());
  const auto connection = connect(place, kOther);

  auto again = Network::open({.prefix = "tstn", .subnet = kSubnet});
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(connection.out_passes());  // while it starts, too
  const auto policy = allow({"a.example", std::string(kOther)});
  ASSERT_TRUE((*again)->adopt(place.index, policy, kMark).has_value());
  ASSERT_TRUE((*again)->adopt(stranger.index).has_value());
  ASSERT_TRUE((*again)->reap_unknown().has_value());
  EXPECT_TRUE(connection.out_passes());
  EXPECT_EQ(reach(place, kServer), 0);
  EXPECT_EQ(reach(place, kOther), 0);
  EXPECT_NE(reach(stranger, kServer), 0);
  // And changes it.
  ASSERT_TRUE((*again)->set_policy(place.index, allow({"a.example"}), kMark + 1).has_value());
  EXPECT_FALSE(connection.out_passes());
  const auto sets = run_program({"nft", "list", "table", "inet", "tstn_sandbox"}).value();
  EXPECT_FALSE(sets.contains(kOther)) << sets;
}

TEST_F(RealEgress, a_sandbox_cannot_have_ever_more_opened) {
  const auto place = make_with({"*.example.com"});
  std::vector<Answer> answers;
  answers.reserve(Egress::kLearntMax);
  for (uint32_t i = 0; i < Egress::kLearntMax; ++i) {
    answers.push_back({.address = number("203.0.113.0") + i, .holds = kHour});
  }
  const uint32_t sandbox = number(place.address);
  ASSERT_TRUE(network_->learn(sandbox, "a.example.com", answers).has_value());
  const auto more = learn(place, "b.example.com", kServer);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, base::ErrorCode::overloaded);
  set(place, {}, kMark + 1);
  set(place, {"*.example.com"}, kMark + 2);
  EXPECT_TRUE(learn(place, "b.example.com", kServer).has_value());
}

TEST_F(RealEgress, the_largest_list_is_taken) {
  std::vector<std::string> entries;
  entries.reserve(256);
  for (int i = 0; i < 256; ++i) {
    entries.push_back(cat("203.", i, ".0.0/16"));
  }
  const auto place = make_with(entries);
  EXPECT_NE(reach(place, kServer), 0);
  entries.back() = "198.51.100.0/24";
  set(place, entries, kMark + 1);
  EXPECT_EQ(reach(place, kServer), 0);
}

}  // namespace
}  // namespace node
