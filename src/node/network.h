// Networks of sandboxes: a network namespace each with one routed veth pair (no bridge), and the
// firewall around all of them. Owned by the node, one per name prefix; only on its only thread
// (make() visits other network namespaces and comes back). At most capacity() places. A failing
// make() leaves nothing behind. Everything is IPv4; IPv6 is off inside and on the host's end.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "model/network_policy.h"
#include "node/egress.h"
#include "node/name_sockets.h"
#include "node/netlink.h"
#include "node/socket_watch.h"

namespace node {

// The gateway of every sandbox: link-local, so it never collides with an address worth reaching.
inline constexpr uint32_t kGatewayAddress = 0xa9fe0101;  // 169.254.1.1

struct NetworkOptions {
  std::string prefix;  // of interface names and of the nft table: 1 to 8 of [a-z][a-z0-9]*
  std::string subnet;  // "10.201.0.0/16": /8 to /29
  // There may be fewer places than addresses: nothing else that a place needs has room for more.
  uint32_t places_max = UINT32_MAX;
};

struct NetworkPlace {
  base::Fd name_space;  // the only thing that keeps it alive: closed and left by all, it is gone
  uint32_t index = 0;   // the host's end is called PREFIX-INDEX
  std::string address;  // of eth0 inside
  uint64_t cookie = 0;  // of the name space, once it is finished
  std::optional<Netlink> unfinished;  // what finish() works with
};

// Fails (invalid_field) for what is no prefix.
base::Result<void> check_prefix(const std::string& prefix);
// What the names of a prefix's interfaces begin with, and no other prefix's: rules match by it.
std::string interface_begin(const std::string& prefix);

struct Subnet {
  uint32_t base = 0;  // host byte order
  int length = 0;
  std::string text;

  // How many sandboxes have an address in it, and the address of one of them.
  [[nodiscard]] uint32_t capacity() const;
  [[nodiscard]] uint32_t address(uint32_t index) const;
};
base::Result<Subnet> parse_subnet(std::string_view text);

// The firewall as input of `nft -f -`: replaces the rules of the prefix's own table in one
// transaction, and makes the table where there is none.
std::string firewall_rules(const std::string& prefix, const Subnet& subnet,
                           const NameSockets& names);
base::Result<void> load_firewall(const std::string& prefix, const std::string& rules);
// Deletes the table.
base::Result<void> forget_firewall(const std::string& prefix);

// Of /proc/net/sockstat and /proc/net/dev: whether the namespace has no socket at all, and whether
// no packet has passed any of its interfaces. Text of another form is no proof: false.
bool has_no_socket(std::string_view sockstat);
bool has_no_traffic(std::string_view interfaces);

// Bytes since the place was made, as the sandbox sees the direction.
struct NetworkUsage {
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;
};

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
  // The same in two halves, so that a shell can be cloned into it in between and goes on by itself:
  // a namespace with its sysctls, then its interfaces. A place that is not finished is given back
  // or released as any other.
  base::Result<NetworkPlace> begin();
  base::Result<void> finish(NetworkPlace& place);
  // From now on make() may take a place that was given back, if it is as it was made.
  void reuse_untouched(std::unique_ptr<SocketWatch> sockets) { sockets_ = std::move(sockets); }
  // How many of them may wait for that; more are let go at once. At first none.
  void want_spares(size_t at_most);
  // With `none` no packet passes in either direction (loopback still works), and inside there is no
  // route: "Network is unreachable". With `allow` one is refused at once where it may not go.
  // `mark` is a number that no other policy has, for `allow`.
  base::Result<void> set_policy(uint32_t index, const model::NetworkPolicy& policy, uint32_t mark);
  // Told of every allow-list before it counts (adopted ones too), and of its end (null).
  using PolicyListener =
      std::function<void(const std::string& sandbox, const model::NetworkPolicy* policy)>;
  void on_policy(PolicyListener listener) { policy_listener_ = std::move(listener); }
  // Where the queries of sandboxes with an allow-list arrive.
  [[nodiscard]] const NameSockets& name_sockets() const { return names_; }
  // For a gateway: where what sandboxes ask of it arrives.
  [[nodiscard]] base::Result<base::Fd> open_gateway_socket() const {
    return node::open_gateway_socket(names_.address);
  }
  // Opens what an allowed name resolved to, for the sandbox with that address (Egress::learn).
  base::Result<void> learn(uint32_t sandbox, const std::string& name,
                           std::span<const Egress::Answer> answers) {
    return egress_.learn(sandbox, name, answers);
  }
  // A place of an earlier node's whose sandbox lives; with its policy where that is a list.
  base::Result<void> adopt(uint32_t index, const model::NetworkPolicy& policy = {},
                           uint32_t mark = 0);
  // Gives a place back whose processes are dead. It is kept for make() only if it is proven that it
  // is as it was made. Root inside has no power over the namespace, so the only ways to change
  // anything in it are internet sockets and packets: none was ever made in it, none passed its
  // interfaces, it holds no socket of any kind, and set_policy() left it alone. Everything else
  // becomes a release().
  void give_back(NetworkPlace place);
  // Gives the index back; it is used again last of all. The veth goes with its namespace (the
  // kernel deletes it some 10 ms after the last process and descriptor).
  void release(uint32_t index);
  // Once, behind the last adopt(): deletes the interfaces with the prefix that are neither made nor
  // adopted here, and what the firewall holds of others.
  base::Result<void> reap_unknown();
  // Deletes the firewall table and all else that open() made, where nothing needs it any more.
  base::Result<void> close();

  [[nodiscard]] base::Result<NetworkUsage> usage(uint32_t index) const;
  [[nodiscard]] std::string address(uint32_t index) const;
  [[nodiscard]] bool has_address(uint32_t index, uint32_t address) const {
    return subnet_.address(index) == address;
  }
  [[nodiscard]] uint32_t capacity() const { return static_cast<uint32_t>(used_.size()); }

 private:
  Network(NetworkOptions options, Subnet subnet, base::Fd host_name_space, Netlink host,
          NameSockets names, Egress egress);

  [[nodiscard]] std::string interface(uint32_t index) const;
  base::Result<uint32_t> choose_index();
  bool is_as_made(const NetworkPlace& place);
  base::Result<void> set_up_host_end(uint32_t index);
  base::Result<void> set_host_end_down(uint32_t index);
  void settle_inner_end(uint32_t index);
  base::Result<void> set_group(uint32_t index, uint32_t group);
  base::Result<void> end_allow_list(uint32_t index);

  NetworkOptions options_;
  Subnet subnet_;
  base::Fd host_name_space_;
  Netlink host_;
  NameSockets names_;
  Egress egress_;
  PolicyListener policy_listener_;
  std::optional<std::vector<Egress::Restored>> restored_{std::in_place};  // until reap_unknown()
  std::vector<bool> used_;
  std::vector<bool> switched_;  // by set_policy()
  uint32_t next_ = 0;
  std::unique_ptr<SocketWatch> sockets_;  // none: no place is used twice
  size_t spares_max_ = 0;
  std::deque<NetworkPlace> spares_;  // given back, oldest first; their indices stay used
};

// Accept rules for a FORWARD or INPUT policy of DROP (Docker and host firewalls set them), by the
// host's own iptables; nothing where there is no such policy.
base::Result<void> accept_in_foreign_firewall(const std::string& prefix, const NameSockets& names);
base::Result<void> forget_in_foreign_firewall(const std::string& prefix, const NameSockets& names);

}  // namespace node
