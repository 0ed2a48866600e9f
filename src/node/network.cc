#include "node/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "base/sys.h"

namespace node {

using base::cat;
using base::ErrorCode;
using base::fail;
using base::fail_errno;
using base::Result;

namespace {

// IFNAMSIZ is 16 with the final zero; an index has at most 7 digits.
constexpr size_t kPrefixMax = 8;
constexpr int kSubnetLengthMin = 8;
constexpr int kSubnetLengthMax = 29;
// Addresses ending in 0 or 255 are routable but refused by some software: 254 a block.
constexpr uint32_t kAddressesPerBlock = 254;
// A new namespace holds lo as 1; asking for 2 saves reading the number back.
constexpr int kInnerIndex = 2;
constexpr uint32_t kLoopbackIndex = 1;
// sockstat and dev of a namespace with two interfaces are below 1 KiB.
constexpr size_t kProcFileBytesMax = 16'384;
// Dying places that choose_index() passes over before it deletes one to take its index.
constexpr size_t kLeftoversMax = 1024;

using Mac = std::array<uint8_t, 6>;

// Locally administered (bit 1 of the first byte); only the two ends ever see them.
Mac mac_of(uint8_t end, uint32_t index) {
  return {0x0a,
          0x5b,
          end,
          static_cast<uint8_t>(index >> 16),
          static_cast<uint8_t>(index >> 8),
          static_cast<uint8_t>(index)};
}
Mac outer_mac(uint32_t index) { return mac_of(1, index); }
Mac inner_mac(uint32_t index) { return mac_of(2, index); }

std::string dotted(uint32_t address) {
  return cat(address >> 24, '.', (address >> 16) & 255, '.', (address >> 8) & 255, '.',
             address & 255);
}

void add_link_up(NetlinkBatch& batch, std::string_view what, uint32_t index, bool up) {
  batch.begin(what, RTM_NEWLINK, 0);
  batch.header(ifinfomsg{.ifi_family = AF_UNSPEC,
                         .ifi_index = static_cast<int>(index),
                         .ifi_flags = up ? static_cast<unsigned>(IFF_UP) : 0U,
                         .ifi_change = IFF_UP});
  batch.end();
}

void add_neighbour(NetlinkBatch& batch, std::string_view what, uint32_t index, uint32_t address,
                   const Mac& mac) {
  batch.begin(what, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
  batch.header(ndmsg{
      .ndm_family = AF_INET, .ndm_ifindex = static_cast<int>(index), .ndm_state = NUD_PERMANENT});
  batch.attribute_number(NDA_DST, htonl(address));
  batch.attribute(NDA_LLADDR, mac.data(), mac.size());
  batch.end();
}

// destination 0: the default route; gateway 0: none.
void add_route(NetlinkBatch& batch, std::string_view what, uint32_t index, uint32_t destination,
               uint32_t gateway) {
  batch.begin(what, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
  batch.header(
      rtmsg{.rtm_family = AF_INET,
            .rtm_dst_len = static_cast<uint8_t>(destination == 0 ? 0 : 32),
            .rtm_table = RT_TABLE_MAIN,
            .rtm_protocol = RTPROT_STATIC,
            .rtm_scope = static_cast<uint8_t>(gateway == 0 ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE),
            .rtm_type = RTN_UNICAST});
  if (destination != 0) {
    batch.attribute_number(RTA_DST, htonl(destination));
  }
  if (gateway != 0) {
    batch.attribute_number(RTA_GATEWAY, htonl(gateway));
  }
  batch.attribute_number(RTA_OIF, index);
  batch.end();
}

// Without these a veth gets a queue for each CPU and then goes back to one, at the price of a grace
// period each.
void add_one_queue(NetlinkBatch& batch) {
  batch.attribute_number(IFLA_NUM_TX_QUEUES, uint32_t{1});
  batch.attribute_number(IFLA_NUM_RX_QUEUES, uint32_t{1});
}

// Both ends in one message: the host's up, the other one directly in the namespace. (Asking for
// the other end to be up as well is refused with ENOTCONN.)
NetlinkBatch veth_pair(const std::string& name, uint32_t index, int name_space) {
  NetlinkBatch batch;
  batch.begin("create the veth pair", RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  batch.header(ifinfomsg{.ifi_family = AF_UNSPEC, .ifi_flags = IFF_UP, .ifi_change = IFF_UP});
  batch.attribute_text(IFLA_IFNAME, name);
  batch.attribute(IFLA_ADDRESS, outer_mac(index).data(), sizeof(Mac));
  add_one_queue(batch);
  const auto info = batch.open(IFLA_LINKINFO);
  batch.attribute_text(IFLA_INFO_KIND, "veth");
  const auto data = batch.open(IFLA_INFO_DATA);
  const auto peer = batch.open(VETH_INFO_PEER);
  batch.header(ifinfomsg{.ifi_family = AF_UNSPEC, .ifi_index = kInnerIndex});
  batch.attribute_text(IFLA_IFNAME, "eth0");
  batch.attribute(IFLA_ADDRESS, inner_mac(index).data(), sizeof(Mac));
  add_one_queue(batch);
  batch.attribute_number(IFLA_NET_NS_FD, static_cast<uint32_t>(name_space));
  batch.close(peer);
  batch.close(data);
  batch.close(info);
  batch.end();
  return batch;
}

NetlinkBatch inner_end(uint32_t index, uint32_t address) {
  NetlinkBatch batch;
  add_link_up(batch, "put lo up", kLoopbackIndex, true);
  add_link_up(batch, "put eth0 up", kInnerIndex, true);
  batch.begin("set the address of eth0", RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
  batch.header(ifaddrmsg{.ifa_family = AF_INET,
                         .ifa_prefixlen = 32,
                         .ifa_scope = RT_SCOPE_UNIVERSE,
                         .ifa_index = kInnerIndex});
  batch.attribute_number(IFA_LOCAL, htonl(address));
  batch.attribute_number(IFA_ADDRESS, htonl(address));
  batch.end();
  add_route(batch, "add the route to the gateway", kInnerIndex, kGatewayAddress, 0);
  add_route(batch, "add the default route", kInnerIndex, 0, kGatewayAddress);
  add_neighbour(batch, "add the gateway's neighbour entry", kInnerIndex, kGatewayAddress,
                outer_mac(index));
  return batch;
}

void add_question(NetlinkBatch& batch, uint32_t link, std::optional<int32_t> name_space = {}) {
  batch.begin("ask for an end", RTM_GETLINK, 0);
  batch.header(ifinfomsg{.ifi_family = AF_UNSPEC, .ifi_index = static_cast<int>(link)});
  batch.attribute_number(IFLA_EXT_MASK, uint32_t{RTEXT_FILTER_SKIP_STATS});
  if (name_space) {
    batch.attribute_number(IFLA_TARGET_NETNSID, *name_space);
  }
  batch.end();
}

// A number among the attributes of a link that was asked for.
std::optional<int32_t> link_number(std::string_view message, uint16_t type) {
  size_t at = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(ifinfomsg));
  while (at + sizeof(rtattr) <= message.size()) {
    rtattr head;
    ::memcpy(&head, message.data() + at, sizeof head);
    if (head.rta_len < sizeof head || at + head.rta_len > message.size()) {
      return std::nullopt;
    }
    if (head.rta_type == type && head.rta_len == RTA_LENGTH(sizeof(int32_t))) {
      int32_t number = 0;
      ::memcpy(&number, message.data() + at + RTA_LENGTH(0), sizeof number);
      return number;
    }
    at += RTA_ALIGN(head.rta_len);
  }
  return std::nullopt;
}

struct Sysctl {
  const char* path;
  const char* value;
};
// Written inside: the sandbox's root has no capability over the namespace, so it could neither
// bind port 80 nor ping without the first two. IPv6 goes off before an interface is there; "all"
// sets the default of later ones as well.
constexpr const char* kPingGroups = "/proc/sys/net/ipv4/ping_group_range";
constexpr std::array<Sysctl, 4> kInnerSysctls = {{
    {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
    {kPingGroups, "0 4294967294"},
    {"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"},
    // While the host's end is down (mode `none`) there is no route: what is sent fails at once.
    {"/proc/sys/net/ipv4/conf/default/ignore_routes_with_linkdown", "1"},
}};

// Absent files are fine: a kernel without IPv6 has none of its sysctls.
Result<void> write_sysctl(const std::string& path, std::string_view value) {
  auto written = base::sys::write_file(path, value);
  if (!written && written.error().errno_value == EINVAL && path == kPingGroups) {
    // Kernels before 6.4 know no higher group; sandboxes with ids above it cannot ping there.
    written = base::sys::write_file(path, "0 2147483647");
  }
  if (!written && written.error().errno_value != ENOENT) {
    return written;
  }
  return {};
}

struct NewNameSpace {
  base::Fd handle;
  Netlink inside;
};

// Enters the calling thread into a new namespace; the caller brings it back.
Result<NewNameSpace> enter_new_name_space() {
  if (::unshare(CLONE_NEWNET) != 0) {
    return fail_errno(errno, "make a network namespace");
  }
  ASSIGN_OR_RETURN(auto handle, base::sys::open("/proc/thread-self/ns/net", O_RDONLY));
  for (const auto& sysctl : kInnerSysctls) {
    RETURN_IF_ERROR(write_sysctl(sysctl.path, sysctl.value));
  }
  ASSIGN_OR_RETURN(auto inside, Netlink::open());
  return NewNameSpace{.handle = std::move(handle), .inside = std::move(inside)};
}

// Absent is fine. By name, so that no interface that took its number over can be hit.
Result<void> delete_interface(Netlink& host, const std::string& name) {
  NetlinkBatch batch;
  batch.begin(cat("delete interface ", name), RTM_DELLINK, 0);
  batch.header(ifinfomsg{.ifi_family = AF_UNSPEC});
  batch.attribute_text(IFLA_IFNAME, name);
  batch.end();
  auto deleted = host.run(batch);
  if (!deleted && deleted.error().errno_value != ENODEV) {
    return deleted;
  }
  return {};
}

// The number of one of our interfaces: "sg-12" is 12.
std::optional<uint32_t> index_in(std::string_view begin, std::string_view interface) {
  if (!interface.starts_with(begin)) {
    return std::nullopt;
  }
  return base::parse_number<uint32_t>(interface.substr(begin.size()));
}

}  // namespace

Result<void> check_prefix(const std::string& prefix) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (prefix.empty() || prefix.size() > kPrefixMax || !std::ranges::all_of(prefix, fits) ||
      prefix.front() < 'a') {
    return base::fail_field("name_prefix", "\"", prefix, "\" is not 1 to ", kPrefixMax,
                            " of a-z and 0-9 that begin with a letter");
  }
  return {};
}

std::string interface_begin(const std::string& prefix) { return prefix + '-'; }

uint32_t Subnet::capacity() const {
  const uint32_t addresses = uint32_t{1} << (32 - length);
  return length > 24 ? addresses - 2 : addresses / 256 * kAddressesPerBlock;
}

uint32_t Subnet::address(uint32_t index) const {
  return base + index / kAddressesPerBlock * 256 + index % kAddressesPerBlock + 1;
}

Result<Subnet> parse_subnet(std::string_view text) {
  const auto slash = text.find('/');
  const auto length = base::parse_number<int>(
      slash == std::string_view::npos ? std::string_view{} : text.substr(slash + 1));
  in_addr address{};
  if (!length || *length < kSubnetLengthMin || *length > kSubnetLengthMax ||
      ::inet_pton(AF_INET, std::string(text.substr(0, slash)).c_str(), &address) != 1) {
    return base::fail_field("subnet", "\"", text, "\" is not an IPv4 subnet of /8 to /29");
  }
  const auto base_address = ntohl(address.s_addr);
  const auto mask = ~uint32_t{0} << (32 - *length);
  if ((base_address & ~mask) != 0) {
    return base::fail_field("subnet", "\"", text, "\" has bits set beyond its length");
  }
  return Subnet{.base = base_address, .length = *length, .text = std::string(text)};
}

bool has_no_socket(std::string_view sockstat) {
  return base::split(sockstat, '\n').front() == "sockets: used 0";
}

bool has_no_traffic(std::string_view interfaces) {
  size_t quiet = 0;
  for (const auto line : base::split(interfaces, '\n')) {
    // "  eth0:       0       0 ..."; the two head lines have no colon.
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) {
      continue;
    }
    if (line.find_first_not_of(" 0", colon + 1) != std::string_view::npos) {
      return false;
    }
    ++quiet;
  }
  return quiet == 2;  // lo and eth0
}

Network::Network(NetworkOptions options, Subnet subnet, base::Fd host_name_space, Netlink host,
                 NameSockets names, Egress egress)
    : options_(std::move(options)),
      subnet_(std::move(subnet)),
      host_name_space_(std::move(host_name_space)),
      host_(std::move(host)),
      names_(std::move(names)),
      egress_(std::move(egress)),
      used_(std::min(subnet_.capacity(), options_.places_max), false),
      switched_(used_.size(), false) {}

Result<std::unique_ptr<Network>> Network::open(const NetworkOptions& options) {
  RETURN_IF_ERROR(check_prefix(options.prefix));
  ASSIGN_OR_RETURN(auto subnet, parse_subnet(options.subnet));
  ASSIGN_OR_RETURN(auto host_name_space, base::sys::open("/proc/thread-self/ns/net", O_RDONLY));
  ASSIGN_OR_RETURN(auto host, Netlink::open());
  ASSIGN_OR_RETURN(auto names, open_name_sockets(host, subnet.base));
  const auto rules = firewall_rules(options.prefix, subnet, names);
  RETURN_IF_ERROR(base::with_context(load_firewall(options.prefix, rules), "load the firewall"));
  ASSIGN_OR_RETURN(auto egress, Egress::open(options.prefix));
  RETURN_IF_ERROR(accept_in_foreign_firewall(options.prefix, names));
  // Last, so that nothing is ever forwarded without the firewall.
  RETURN_IF_ERROR(base::sys::write_file("/proc/sys/net/ipv4/ip_forward", "1"));
  return std::unique_ptr<Network>(new Network(options, std::move(subnet),
                                              std::move(host_name_space), std::move(host),
                                              std::move(names), std::move(egress)));
}

std::string Network::interface(uint32_t index) const {
  return cat(interface_begin(options_.prefix), index);
}

std::string Network::address(uint32_t index) const { return dotted(subnet_.address(index)); }

// Round robin: an address comes back as late as possible, when nobody remembers its last owner.
// A released place whose namespace still dies is passed over, and deleted only if need be.
Result<uint32_t> Network::choose_index() {
  std::vector<uint32_t> leftovers;
  for (uint32_t tried = 0; tried < capacity() && leftovers.size() < kLeftoversMax; ++tried) {
    const auto index = next_;
    next_ = (next_ + 1) % capacity();
    if (used_[index]) {
      continue;
    }
    if (host_.index_of(interface(index)) == 0) {
      return index;
    }
    leftovers.push_back(index);
  }
  if (leftovers.empty()) {
    return fail(ErrorCode::overloaded, "this machine has room for ", capacity(),
                " sandboxes (addresses of ", options_.subnet, " and user ids) and they are in use");
  }
  RETURN_IF_ERROR(delete_interface(host_, interface(leftovers.front())));
  return leftovers.front();
}

Result<NetworkPlace> Network::make() {
  ASSIGN_OR_RETURN(auto place, begin());
  if (auto finished = finish(place); !finished) {
    release(place.index);
    return std::unexpected(std::move(finished).error());
  }
  return place;
}

Result<NetworkPlace> Network::begin() {
  if (!spares_.empty()) {
    NetworkPlace place = std::move(spares_.front());
    spares_.pop_front();
    return place;
  }
  ASSIGN_OR_RETURN(const auto index, choose_index());
  auto entered = enter_new_name_space();
  if (::setns(host_name_space_.get(), CLONE_NEWNET) != 0) {
    // In a sandbox's namespace nothing that follows can be right.
    ::abort();
  }
  if (!entered) {
    return std::unexpected(std::move(entered).error());
  }
  used_[index] = true;
  return NetworkPlace{.name_space = std::move(entered->handle),
                      .index = index,
                      .address = address(index),
                      .unfinished = std::move(entered->inside)};
}

// On a failure the namespace goes with its handle, and takes the veth along.
Result<void> Network::finish(NetworkPlace& place) {
  if (!place.unfinished) {
    return {};
  }
  const auto index = place.index;
  Netlink& inside = *place.unfinished;
  RETURN_IF_ERROR(host_.run(veth_pair(interface(index), index, place.name_space.get())));
  RETURN_IF_ERROR(
      write_sysctl(cat("/proc/sys/net/ipv6/conf/", interface(index), "/disable_ipv6"), "1"));
  RETURN_IF_ERROR(inside.run(inner_end(index, subnet_.address(index))));
  RETURN_IF_ERROR(set_up_host_end(index));
  ASSIGN_OR_RETURN(place.cookie, inside.name_space_cookie());
  place.unfinished.reset();
  return {};
}

Result<void> Network::set_up_host_end(uint32_t index) {
  const auto link = host_.index_of(interface(index));
  if (link == 0) {
    return fail(ErrorCode::not_found, "interface ", interface(index), " is gone");
  }
  NetlinkBatch batch;
  add_link_up(batch, "put the host's end up", link, true);
  add_route(batch, "add the route to the sandbox", link, subnet_.address(index), 0);
  add_neighbour(batch, "add the sandbox's neighbour entry", link, subnet_.address(index),
                inner_mac(index));
  // Of two ends the one that was up first only carries packets once the kernel's link watch has
  // run, some time later; asking for its state (kernel 6.8) makes that now. Otherwise the first
  // connection of a sandbox can wait a second for its second try.
  add_question(batch, link);
  return host_.run(batch);
}

// What the host's end became counts for the other one once the kernel's link watch has run there;
// asking for its state makes that now (kernel 6.8), so that routes are there or not from the next
// packet on.
void Network::settle_inner_end(uint32_t index) {
  NetlinkBatch outer;
  add_question(outer, host_.index_of(interface(index)));
  std::string answer;
  if (!host_.run(outer, &answer)) {
    return;
  }
  const auto link = link_number(answer, IFLA_LINK);
  const auto name_space = link_number(answer, IFLA_LINK_NETNSID);
  if (link && name_space) {
    NetlinkBatch inner;
    add_question(inner, static_cast<uint32_t>(*link), name_space);
    [[maybe_unused]] const auto asked = host_.run(inner);
  }
}

Result<void> Network::set_host_end_down(uint32_t index) {
  const auto link = host_.index_of(interface(index));
  if (link == 0) {
    return fail(ErrorCode::not_found, "interface ", interface(index), " is gone");
  }
  NetlinkBatch batch;
  add_link_up(batch, "put the host's end down", link, false);
  return host_.run(batch);
}

Result<void> Network::set_group(uint32_t index, uint32_t group) {
  const auto link = host_.index_of(interface(index));
  if (link == 0) {
    return fail(ErrorCode::not_found, "interface ", interface(index), " is gone");
  }
  NetlinkBatch batch;
  batch.begin("set the group of the host's end", RTM_NEWLINK, 0);
  batch.header(ifinfomsg{.ifi_family = AF_UNSPEC, .ifi_index = static_cast<int>(link)});
  batch.attribute_number(IFLA_GROUP, group);
  batch.end();
  return host_.run(batch);
}

// In an order in which nothing passes for a moment that neither policy lets pass.
Result<void> Network::set_policy(uint32_t index, const model::NetworkPolicy& policy,
                                 uint32_t mark) {
  if (index >= switched_.size()) {
    return fail(ErrorCode::not_found, "index ", index, " is outside of ", options_.subnet);
  }
  switched_[index] = true;
  switch (policy.mode) {
    case model::NetworkMode::none:
      RETURN_IF_ERROR(set_host_end_down(index));
      settle_inner_end(index);
      return end_allow_list(index);
    case model::NetworkMode::allow:
      if (policy_listener_) {
        policy_listener_(address(index), &policy);
      }
      RETURN_IF_ERROR(egress_.set(subnet_.address(index), model::allow_list(policy), mark));
      RETURN_IF_ERROR(set_group(index, kRestrictedGroup));
      RETURN_IF_ERROR(set_up_host_end(index));  // going down has taken route and neighbour along
      settle_inner_end(index);
      return {};
    case model::NetworkMode::open:
      RETURN_IF_ERROR(set_group(index, 0));
      RETURN_IF_ERROR(set_up_host_end(index));
      settle_inner_end(index);
      return end_allow_list(index);
  }
  return {};
}

Result<void> Network::end_allow_list(uint32_t index) {
  const uint32_t sandbox = subnet_.address(index);
  if (policy_listener_ && egress_.has(sandbox)) {
    policy_listener_(address(index), nullptr);
  }
  return egress_.clear(sandbox);
}

Result<void> Network::adopt(uint32_t index, const model::NetworkPolicy& policy, uint32_t mark) {
  if (index >= used_.size()) {
    return fail(ErrorCode::not_found, "index ", index, " is outside of ", options_.subnet);
  }
  used_[index] = true;
  if (policy.mode == model::NetworkMode::allow && restored_) {
    restored_->push_back(
        {.sandbox = subnet_.address(index), .list = model::allow_list(policy), .mark = mark});
    if (policy_listener_) {
      policy_listener_(address(index), &policy);
    }
  }
  return {};
}

void Network::release(uint32_t index) {
  if (index < used_.size()) {
    used_[index] = false;
    switched_[index] = false;
    // What stays is without effect while the address has no list, and gone with the next one's.
    [[maybe_unused]] const auto cleared = end_allow_list(index);
  }
}

void Network::give_back(NetworkPlace place) {
  if (spares_.size() < spares_max_ && is_as_made(place)) {
    spares_.push_back(std::move(place));
    return;
  }
  if (sockets_) {
    sockets_->forget(place.cookie);
  }
  release(place.index);
}

void Network::want_spares(size_t at_most) {
  spares_max_ = at_most;
  while (spares_.size() > spares_max_) {
    release(spares_.front().index);
    spares_.pop_front();
  }
}

bool Network::is_as_made(const NetworkPlace& place) {
  if (!sockets_ || place.unfinished || place.index >= switched_.size() || switched_[place.index] ||
      sockets_->saw_one(place.cookie) || ::setns(place.name_space.get(), CLONE_NEWNET) != 0) {
    return false;
  }
  const auto sockets = base::sys::read_file("/proc/thread-self/net/sockstat", kProcFileBytesMax);
  const auto interfaces = base::sys::read_file("/proc/thread-self/net/dev", kProcFileBytesMax);
  if (::setns(host_name_space_.get(), CLONE_NEWNET) != 0) {
    ::abort();  // as in begin()
  }
  return sockets && interfaces && has_no_socket(*sockets) && has_no_traffic(*interfaces);
}

Result<void> Network::reap_unknown() {
  if (auto adopted = std::exchange(restored_, std::nullopt)) {
    RETURN_IF_ERROR(egress_.restore(std::move(*adopted)));
  }
  // Not by /sys, which shows the network namespace that it was mounted in.
  const std::unique_ptr<struct if_nameindex[], decltype(&::if_freenameindex)> interfaces(
      ::if_nameindex(), ::if_freenameindex);
  if (!interfaces) {
    return fail_errno(errno, "list network interfaces");
  }
  const std::string begin = interface_begin(options_.prefix);
  for (size_t i = 0; interfaces[i].if_name != nullptr; ++i) {
    const std::string name = interfaces[i].if_name;
    const auto index = index_in(begin, name);
    if (index && (*index >= used_.size() || !used_[*index])) {
      RETURN_IF_ERROR(delete_interface(host_, name));
    }
  }
  return {};
}

Result<void> Network::close() {
  RETURN_IF_ERROR(forget_in_foreign_firewall(options_.prefix, names_));
  RETURN_IF_ERROR(remove_name_address(host_, names_.address));
  return forget_firewall(options_.prefix);
}

}  // namespace node
