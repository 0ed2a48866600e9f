#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "node/cgroups.h"
#include "node/network_testing.h"

namespace node {
namespace {

using base::cat;

// What a sandbox's process does: in a cgroup beneath the watched one and in the place's namespace.
template <typename Action>
void act_inside(const std::string& cgroup, const NetworkPlace& place, const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool there = base::sys::write_file(cgroup + "/cgroup.procs", "0").has_value() &&
                       ::setns(place.name_space.get(), CLONE_NEWNET) == 0;
    action();
    ::_exit(there ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

class ReusedNetwork : public RealNetwork {
 protected:
  static constexpr size_t kSpares = 16;
  static constexpr int kTriesMax = 1000;
  static constexpr useconds_t kPauseMicroseconds = 2'000;

  void SetUp() override {
    RealNetwork::SetUp();
    if (IsSkipped()) {
      return;
    }
    cgroups_ = Cgroups::open("tstn").value();
    if (cgroups_->v2_folder().empty()) {
      GTEST_SKIP() << "needs cgroup v2";
    }
    ASSERT_TRUE(cgroups_->make("watched", 0).has_value());
    network_->reuse_untouched(SocketWatch::open(cgroups_->v2_folder(), 100).value());
    network_->want_spares(kSpares);
  }
  void TearDown() override {
    if (cgroups_) {
      EXPECT_TRUE(cgroups_->remove("watched").has_value());
      EXPECT_TRUE(cgroups_->close().has_value());
    }
    RealNetwork::TearDown();
  }
  [[nodiscard]] std::string cgroup() const { return cgroups_->v2_folder() + "/watched"; }

  // Waits until the kernel has freed the socket it was made by, some grace periods later.
  NetworkPlace make() {
    auto place = RealNetwork::make();
    const Inside inside(place.name_space);
    for (int i = 0; i < kTriesMax; ++i) {
      if (has_no_socket(base::sys::read_file("/proc/thread-self/net/sockstat", 4096).value())) {
        break;
      }
      ::usleep(kPauseMicroseconds);
    }
    return place;
  }
  // Whether the place comes back when it is given back.
  bool is_used_again(NetworkPlace place) {
    const auto cookie = place.cookie;
    network_->give_back(std::move(place));
    auto next = make();
    return next.cookie == cookie;
  }
  std::unique_ptr<Cgroups> cgroups_;
};

TEST_F(ReusedNetwork, an_untouched_place_is_used_again_oldest_first) {
  auto first = make();
  auto second = make();
  const auto first_cookie = first.cookie;
  const auto second_cookie = second.cookie;
  EXPECT_NE(first_cookie, second_cookie);
  act_inside(cgroup(), first, [] { ::socket(AF_UNIX, SOCK_STREAM, 0); });
  network_->give_back(std::move(first));
  network_->give_back(std::move(second));
  const auto again = make();
  EXPECT_EQ(again.cookie, first_cookie);
  EXPECT_EQ(again.address, network_->address(again.index));
  EXPECT_TRUE(has_interface(cat("tstn-", again.index)));
  EXPECT_EQ(make().cookie, second_cookie);
}

TEST_F(ReusedNetwork, a_place_with_any_internet_socket_is_not_used_again) {
  constexpr int kMptcp = 262;
  struct Kind {
    int family;
    int type;
    int protocol;
  };
  for (const Kind kind :
       {Kind{AF_INET, SOCK_STREAM, 0}, Kind{AF_INET, SOCK_DGRAM, 0}, Kind{AF_INET6, SOCK_STREAM, 0},
        Kind{AF_INET6, SOCK_DGRAM, 0}, Kind{AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
        Kind{AF_INET, SOCK_RAW, 255}, Kind{AF_INET, SOCK_STREAM, kMptcp}}) {
    auto place = make();
    act_inside(cgroup(), place, [&] {
      if (::socket(kind.family, kind.type, kind.protocol) < 0 && errno == EPROTONOSUPPORT) {
        ::socket(AF_INET, SOCK_STREAM, 0);  // this kernel lacks that kind
      }
    });
    EXPECT_FALSE(is_used_again(std::move(place))) << kind.family << ' ' << kind.protocol;
  }
}

TEST_F(ReusedNetwork, no_more_places_are_kept_than_wanted) {
  network_->want_spares(2);
  std::vector<NetworkPlace> places;
  places.reserve(3);
  for (int i = 0; i < 3; ++i) {
    places.push_back(make());
  }
  const auto first = places[0].cookie;
  const auto second = places[1].cookie;
  const auto third = places[2].cookie;
  for (auto& place : places) {
    network_->give_back(std::move(place));
  }
  network_->want_spares(1);
  EXPECT_EQ(make().cookie, second);
  const auto other = make().cookie;  // each processor counts cookies up from elsewhere
  EXPECT_TRUE(other != first && other != second && other != third);
}

TEST_F(ReusedNetwork, a_place_where_a_socket_lives_on_is_not_used_again) {
  auto place = make();
  base::Fd kept;
  {
    const Inside inside(place.name_space);
    kept = base::Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }
  EXPECT_FALSE(is_used_again(std::move(place)));
}

TEST_F(ReusedNetwork, a_place_that_packets_reached_is_not_used_again) {
  auto place = make();
  connect_to(place.address, kSilenceMilliseconds);
  EXPECT_FALSE(is_used_again(std::move(place)));
}

TEST_F(ReusedNetwork, a_place_that_was_closed_or_opened_is_not_used_again) {
  for (const bool open : {false, true}) {
    auto place = make();
    ASSERT_TRUE(network_->set_policy(place.index, open ? kOpen : kNone, 1).has_value());
    EXPECT_FALSE(is_used_again(std::move(place)));
  }
}

TEST_F(ReusedNetwork, without_room_to_remember_nothing_is_used_again) {
  network_->reuse_untouched(SocketWatch::open(cgroups_->v2_folder(), 1).value());
  const auto make_socket = [] { ::socket(AF_INET, SOCK_STREAM, 0); };
  auto first = make();
  auto second = make();
  auto untouched = make();
  act_inside(cgroup(), first, make_socket);
  act_inside(cgroup(), second, make_socket);
  EXPECT_FALSE(is_used_again(std::move(second)));
  EXPECT_FALSE(is_used_again(std::move(untouched)));
}

TEST(NetworkProof, only_what_the_kernel_says_in_its_own_words_counts) {
  EXPECT_TRUE(has_no_socket("sockets: used 0\nTCP: inuse 0 orphan 0\n"));
  EXPECT_FALSE(has_no_socket("sockets: used 1\nTCP: inuse 0\n"));
  EXPECT_FALSE(has_no_socket("sockets: used 01\n"));
  EXPECT_FALSE(has_no_socket(""));
  const std::string head = "Inter-|   Receive  |  Transmit\n face |bytes    packets|bytes\n";
  EXPECT_TRUE(has_no_traffic(head + "    lo:       0    0 0\n  eth0:       0  0 0\n"));
  EXPECT_FALSE(has_no_traffic(head + "    lo:       0    0 0\n  eth0:       0  10 0\n"));
  EXPECT_FALSE(has_no_traffic(head + "    lo:       0    0 0\n"));
  EXPECT_FALSE(has_no_traffic(""));
}

}  // namespace
}  // namespace node
