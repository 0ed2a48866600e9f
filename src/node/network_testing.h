// RealNetwork: the fixture of the network's tests, whose host is a network namespace of its own, so
// that nothing of the real one is touched; and what acts inside a place or beyond the host. Needs
// root.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"
#include "node/network.h"

namespace node {

inline constexpr int kConnectMillisecondsMax = 3000;
// Long enough for a packet between two veths a thousand times over; what is dropped stays silent.
inline constexpr int kSilenceMilliseconds = 150;
inline constexpr uint16_t kPort = 4711;
inline const model::NetworkPolicy kOpen{.mode = model::NetworkMode::open, .allow = {}};
inline const model::NetworkPolicy kNone{.mode = model::NetworkMode::none, .allow = {}};

// While it lives, the thread is in another network namespace.
class Inside {
 public:
  explicit Inside(const base::Fd& name_space);
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside();

 private:
  base::Fd back_;
};

sockaddr_in address_of(const std::string& text, uint16_t port);
base::Fd listen_at(const std::string& text, uint16_t port = kPort);
// 0 if a connection came about, else its errno; ETIMEDOUT for silence.
int connect_to(const std::string& text, int milliseconds, uint16_t port = kPort);
int connect_from(const NetworkPlace& place, const std::string& text, int milliseconds,
                 uint16_t port = kPort);

// A network beyond the host: another namespace behind a veth that is no sandbox's. Only in
// addresses meant for documentation.
class Outside {
 public:
  explicit Outside(std::string name);
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
  ~Outside() { ip("link del " + name_); }

  [[nodiscard]] const base::Fd& name_space() const { return name_space_; }

  static void ip(const std::string& arguments);

 private:
  std::string name_;
  base::Fd name_space_;
};

class RealNetwork : public testing::Test {
 protected:
  static constexpr auto kSubnet = "10.253.0.0/24";

  RealNetwork();
  void SetUp() override;
  void TearDown() override;

  static bool has_interface(const std::string& name);
  [[nodiscard]] size_t interfaces() const;
  NetworkPlace make();

  base::Fd real_host_;
  bool away_ = false;
  std::unique_ptr<Network> network_;
};

}  // namespace node
