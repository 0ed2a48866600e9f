#include "node/network_testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "base/sys.h"
#include "base/text.h"
#include "node/program.h"

namespace node {

using base::cat;

namespace {

base::Fd open_own_name_space() {
  return base::sys::open("/proc/thread-self/ns/net", O_RDONLY).value();
}

}  // namespace

Inside::Inside(const base::Fd& name_space) : back_(open_own_name_space()) {
  EXPECT_EQ(::setns(name_space.get(), CLONE_NEWNET), 0);
}

Inside::~Inside() { EXPECT_EQ(::setns(back_.get(), CLONE_NEWNET), 0); }

sockaddr_in address_of(const std::string& text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text.c_str(), &address.sin_addr), 1);
  return address;
}

base::Fd listen_at(const std::string& text, uint16_t port) {
  base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const auto address = address_of(text, port);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
      << errno;
  EXPECT_EQ(::listen(socket.get(), 16), 0);
  return socket;
}

int connect_to(const std::string& text, int milliseconds, uint16_t port) {
  const base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto address = address_of(text, port);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  pollfd watched{socket.get(), POLLOUT, 0};
  if (::poll(&watched, 1, milliseconds) == 0) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

int connect_from(const NetworkPlace& place, const std::string& text, int milliseconds,
                 uint16_t port) {
  const Inside inside(place.name_space);
  return connect_to(text, milliseconds, port);
}

Outside::Outside(std::string name) : name_(std::move(name)) {
  const base::Fd back = open_own_name_space();
  EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
  name_space_ = open_own_name_space();
  EXPECT_EQ(::setns(back.get(), CLONE_NEWNET), 0);
  ip(cat("link add ", name_, " type veth peer name beyond netns /proc/", ::getpid(), "/fd/",
         name_space_.get()));
  ip(cat("addr add 198.51.100.1/30 dev ", name_));
  ip(cat("link set ", name_, " up"));
  {
    const Inside inside(name_space_);
    ip("addr add 198.51.100.2/30 dev beyond");
    ip("link set lo up");
    ip("link set beyond up");
  }
  ip(cat("link show dev ", name_));  // only then does it carry packets at once
  // Knows no way back but to the host itself, as the internet: works only if the source is the
  // host's.
}

void Outside::ip(const std::string& arguments) {
  std::vector<std::string> all = {"ip"};
  for (const auto part : base::split(arguments, ' ')) {
    all.emplace_back(part);
  }
  const auto done = run_program(all);
  EXPECT_TRUE(done.has_value()) << arguments << ": " << done.error().message;
}

RealNetwork::RealNetwork() : real_host_(open_own_name_space()) {}

void RealNetwork::SetUp() {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
  away_ = true;
  Outside::ip("link set lo up");
  auto network = Network::open({.prefix = "tstn", .subnet = kSubnet});
  ASSERT_TRUE(network.has_value()) << network.error().message;
  network_ = std::move(*network);
  ASSERT_TRUE(network_->reap_unknown().has_value());
}

void RealNetwork::TearDown() {
  if (network_) {
    for (uint32_t index = 0; index < network_->capacity(); ++index) {
      network_->release(index);
    }
    EXPECT_TRUE(network_->reap_unknown().has_value());
    EXPECT_TRUE(network_->close().has_value());
    EXPECT_EQ(interfaces(), 0U);
    EXPECT_FALSE(run_program({"nft", "list", "tables"}).value().contains("tstn"));
  }
  if (away_) {
    EXPECT_EQ(::setns(real_host_.get(), CLONE_NEWNET), 0);
  }
}

bool RealNetwork::has_interface(const std::string& name) {
  return ::if_nametoindex(name.c_str()) != 0;
}

size_t RealNetwork::interfaces() const {
  size_t count = 0;
  for (uint32_t index = 0; index < network_->capacity(); ++index) {
    count += has_interface(cat("tstn-", index)) ? 1 : 0;
  }
  return count;
}

NetworkPlace RealNetwork::make() {
  auto place = network_->make();
  EXPECT_TRUE(place.has_value()) << place.error().message;
  return std::move(*place);
}

}  // namespace node
