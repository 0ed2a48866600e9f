// Networks of sandboxes: a network namespace each with one routed veth pair (no bridge), and the
// firewall around all of them. Owned by the node, one per name prefix; only on its only thread
// (make() visits other network namespaces and comes back). At most capacity() places. A failing
// make() leaves nothing behind. Everything is IPv4; IPv6 is off inside and on the host's end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "node/netlink.h"

namespace node {

struct NetworkOptions {
  std::string prefix;  // of interface names and of the nft table: 1 to 8 of [a-z][a-z0-9]
  std::string subnet;  // "10.201.0.0/16": /8 to /29
};

struct NetworkPlace {
  base::Fd name_space;  // the only thing that keeps it alive: closed and left by all, it is gone
  uint32_t index = 0;   // the host's end is called prefix + index
  std::string address;  // of eth0 inside
};

struct Subnet {
  uint32_t base = 0;  // host byte order
  int length = 0;
  std::string text;

  // How many sandboxes have an address in it, and the address of one of them.
  [[nodiscard]] uint32_t capacity() const;
  [[nodiscard]] uint32_t address(uint32_t index) const;
};
base::Result<Subnet> parse_subnet(std::string_view text);

// The firewall as input of `nft -f -`: replaces the prefix's own table in one transaction.
std::string firewall_rules(const std::string& prefix, const Subnet& subnet);

class Network {
 public:
  // Loads the firewall, switches forwarding on. Places of an earlier node stay as they are:
  // adopt() those of surviving sandboxes, then reap_unknown().
  static base::Result<std::unique_ptr<Network>> open(const NetworkOptions& options);

  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network() = default;

  // A place with everything up: lo, eth0 with its address, default route, neighbours, sysctls.
  base::Result<NetworkPlace> make();
  // false: no packet passes in either direction (loopback still works).
  base::Result<void> set_open(uint32_t index, bool open);
  base::Result<void> adopt(uint32_t index);
  // Gives the index back; it is used again last of all. The veth goes with its namespace (the
  // kernel deletes it some 10 ms after the last process and descriptor).
  void release(uint32_t index);
  // Deletes the interfaces with the prefix that are neither made nor adopted here.
  base::Result<void> reap_unknown();
  // Deletes the firewall table. For `down` and tests.
  base::Result<void> close_table();

  [[nodiscard]] std::string address(uint32_t index) const;
  [[nodiscard]] uint32_t capacity() const { return subnet_.capacity(); }

 private:
  Network(NetworkOptions options, Subnet subnet, base::Fd host_name_space, Netlink host);

  [[nodiscard]] std::string interface(uint32_t index) const;
  base::Result<uint32_t> choose_index();
  base::Result<NetworkPlace> make_at(uint32_t index);
  base::Result<void> set_up_host_end(uint32_t index);

  NetworkOptions options_;
  Subnet subnet_;
  base::Fd host_name_space_;
  Netlink host_;
  std::vector<bool> used_;
  uint32_t next_ = 0;
};

// Accept rules for a FORWARD policy of DROP (Docker sets it), by the host's own iptables; nothing
// where there is no such policy.
base::Result<void> accept_in_foreign_firewall(const std::string& prefix);
base::Result<void> forget_in_foreign_firewall(const std::string& prefix);

}  // namespace node
