#include "node/network.h"
#include "node/nftables.h"
#include "node/program.h"

namespace node {

using base::cat;
using base::Result;

namespace {

std::string table_of(const std::string& prefix) { return prefix + "_sandbox"; }

// Of one sandbox. A program that is refused tries some names and addresses, each a few times.
constexpr int kRefusedPerMinute = 60;

// What an allow-list lets through (egress.h); `return` goes on with what holds for every sandbox.
// Refused packets are answered, so that programs fail at once instead of waiting.
std::string restricted_chains() {
  return "  chain from_restricted {\n"
         "    ip saddr . ct mark @live return\n"
         "    ip saddr . ip daddr @learnt ct mark set ip saddr map @marks return\n"
         "    ip saddr . ip daddr @ranges ct mark set ip saddr map @marks return\n"
         "    jump note_refused\n"
         "    meta l4proto tcp reject with tcp reset\n"
         "    reject with icmpx admin-prohibited\n"
         "  }\n"
         "  chain to_restricted {\n"
         "    ct state != { established, related } drop\n"
         "    ip daddr . ct mark @live return\n"
         "    ip daddr . ip saddr @learnt ct mark set ip daddr map @marks return\n"
         "    ip daddr . ip saddr @ranges ct mark set ip daddr map @marks return\n"
         "    drop\n"
         "  }\n";
}

// Told of to sandbox-dns, at a rate for each sandbox that no flood exceeds: the events of a sandbox
// say what its policy refused.
std::string refused_chains(const NameSockets& names) {
  const std::string tell =
      names.refused_group == 0
          ? ""
          : cat("    update @refusals { ip saddr limit rate ", kRefusedPerMinute, "/minute burst ",
                kRefusedPerMinute, " packets } log group ", names.refused_group, " snaplen 64\n");
  return cat(
      "  set refusals { type ipv4_addr; flags dynamic,timeout; timeout 10m; size 65536; }\n"
      "  chain note_refused {\n",
      tell,
      "  }\n"
      "  chain refuse {\n"
      "    jump note_refused\n"
      "    drop\n"
      "  }\n");
}

// Whatever name server a sandbox with an allow-list asks: sandbox-dns answers, and only it hears
// these sandboxes, and only these. What any sandbox asks of its gateway (169.254.1.1, port 80), the
// program of that name answers. `any` is every interface of this node's: another node on the host
// has restricted ones too.
std::string name_chains(const NameSockets& names, const std::string& any) {
  const std::string address = model::ipv4_text(names.address);
  const auto group = cat("    iifname ", any, " iifgroup ", kRestrictedGroup);
  return cat(
      "  chain names {\n"
      "    type nat hook prerouting priority dstnat; policy accept;\n",
      group, " udp dport 53 dnat ip to ", address, ":", names.udp_port, "\n", group,
      " tcp dport 53 dnat ip to ", address, ":", names.tcp_port, "\n    iifname ", any,
      " ip daddr ", model::ipv4_text(kGatewayAddress), " tcp dport 80 dnat ip to ", address, ":",
      kInnerGatewayPort,
      "\n"
      "  }\n"
      // Every address of the host, whatever the interface.
      "  chain to_host {\n",
      group, " ip daddr ", address, " udp dport ", names.udp_port, " accept\n", group, " ip daddr ",
      address, " tcp dport ", names.tcp_port, " accept\n    ip daddr ", address, " tcp dport ",
      kInnerGatewayPort,
      " accept\n"
      "    goto refuse\n"
      "  }\n");
}

}  // namespace

// One table of our own. A verdict of `drop` in it is final whatever other tables say; an `accept`
// is not, hence accept_in_foreign_firewall(). Its sets outlive the rules: what a sandbox may reach
// stays so while a node starts.
std::string firewall_rules(const std::string& prefix, const Subnet& subnet,
                           const NameSockets& names) {
  const auto table = cat("table inet ", table_of(prefix));
  const auto any = cat("\"", interface_begin(prefix), "*\"");
  return cat(table, "\nflush ", table, "\n", table, " {\n", egress_sets(),
             // A source address that is not routed back where it came from is forged.
             "  chain raw {\n"
             "    type filter hook prerouting priority raw; policy accept;\n"
             "    iifname ",
             any,
             " meta nfproto != ipv4 drop\n"
             "    iifname ",
             any,
             " fib saddr . iif oif 0 drop\n"
             "    iifname != { ",
             any, ", \"lo\" } ip saddr ", subnet.text,
             " drop\n"
             "  }\n",
             refused_chains(names), restricted_chains(), name_chains(names, any),
             // Other sandboxes, metadata services and what no one can mean are out of reach.
             "  chain from_sandbox {\n"
             "    oifname ",
             any,
             " goto refuse\n"
             "    ip daddr { ",
             subnet.text,
             ", 169.254.0.0/16 } goto refuse\n"
             "    ip daddr { 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3 } drop\n"
             "    iifgroup ",
             kRestrictedGroup,
             " jump from_restricted\n"
             "    tcp flags syn tcp option maxseg size set rt mtu\n"
             "    accept\n"
             "  }\n"
             "  chain forward {\n"
             "    type filter hook forward priority filter; policy accept;\n"
             "    iifname ",
             any,
             " jump from_sandbox\n"
             "    oifname ",
             any, " oifgroup ", kRestrictedGroup,
             " jump to_restricted\n"
             "    oifname ",
             any,
             " ct state established,related accept\n"
             "    oifname ",
             any,
             " drop\n"
             "    ip daddr ",
             subnet.text,
             " drop\n"
             "  }\n"
             "  chain input {\n"
             "    type filter hook input priority filter; policy accept;\n"
             "    iifname ",
             any,
             " jump to_host\n"
             "    iifname != \"lo\" ip daddr ",
             model::ipv4_text(names.address),
             " drop\n"
             "  }\n"
             "  chain postrouting {\n"
             "    type nat hook postrouting priority srcnat; policy accept;\n"
             "    ip saddr ",
             subnet.text, " oifname != ", any,
             " masquerade\n"
             "  }\n"
             "}\n");
}

Result<void> load_firewall(const std::string& prefix, const std::string& rules) {
  if (load_rules(rules)) {
    return {};
  }
  // The table of another version has other sets or chains, which cannot be changed: a new one.
  return load_rules(without_table(table_of(prefix)) + rules);
}

Result<void> forget_firewall(const std::string& prefix) {
  return load_rules(without_table(table_of(prefix)));
}

namespace {

// A rule of the host's own table of packet filters, behind its chain's name. The foreign chains may
// accept all of ours: our own table has already dropped what must not pass.
struct ForeignRule {
  std::string chain;
  std::vector<std::string> match;

  [[nodiscard]] Result<std::string> run(std::string_view action) const {
    std::vector<std::string> arguments{"iptables", "-w", std::string(action), chain};
    arguments.insert(arguments.end(), match.begin(), match.end());
    arguments.insert(arguments.end(), {"-j", "ACCEPT"});
    return run_program(arguments);
  }
};

std::vector<ForeignRule> foreign_rules(const std::string& prefix, const NameSockets& names) {
  const std::string any = interface_begin(prefix) + "+";
  return {{.chain = "FORWARD", .match = {"-i", any}},
          {.chain = "FORWARD", .match = {"-o", any}},
          {.chain = "INPUT", .match = {"-i", any, "-d", model::ipv4_text(names.address)}}};
}

}  // namespace

Result<void> accept_in_foreign_firewall(const std::string& prefix, const NameSockets& names) {
  if (find_program("iptables").empty()) {
    return {};
  }
  for (const ForeignRule& rule : foreign_rules(prefix, names)) {
    const auto rules = run_program({"iptables", "-w", "-S", rule.chain});
    // Without such a policy (or any iptables in the kernel) there is nothing to pass.
    if (rules && rules->starts_with(cat("-P ", rule.chain, " DROP")) && !rule.run("-C")) {
      RETURN_IF_ERROR(rule.run("-I"));
    }
  }
  return {};
}

Result<void> forget_in_foreign_firewall(const std::string& prefix, const NameSockets& names) {
  if (find_program("iptables").empty()) {
    return {};
  }
  for (const ForeignRule& rule : foreign_rules(prefix, names)) {
    if (rule.run("-C")) {
      RETURN_IF_ERROR(rule.run("-D"));
    }
  }
  return {};
}

}  // namespace node
