#include "node/network.h"
#include "node/program.h"

namespace node {

using base::cat;
using base::Result;

// One table of our own. A verdict of `drop` in it is final whatever other tables say; an `accept`
// is not, hence accept_in_foreign_firewall().
std::string firewall_rules(const std::string& prefix, const Subnet& subnet) {
  const auto table = cat("table inet ", prefix, "_sandbox");
  const auto any = cat("\"", prefix, "*\"");
  return cat(table, "\ndelete ", table, "\n", table, " {\n",
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
             "  }\n"
             // Other sandboxes, metadata services and what no one can mean are out of reach.
             "  chain from_sandbox {\n"
             "    oifname ",
             any,
             " drop\n"
             "    ip daddr { ",
             subnet.text,
             ", 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16,"
             " 224.0.0.0/3 } drop\n"
             "    tcp flags syn tcp option maxseg size set rt mtu\n"
             "    accept\n"
             "  }\n"
             "  chain forward {\n"
             "    type filter hook forward priority filter; policy accept;\n"
             "    iifname ",
             any,
             " jump from_sandbox\n"
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
             // Every address of the host, whatever the interface.
             "  chain input {\n"
             "    type filter hook input priority filter; policy accept;\n"
             "    iifname ",
             any,
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

namespace {

// The foreign chain may accept all of ours: our own table has already dropped what must not pass.
std::vector<std::string> foreign_rule(std::string_view action, std::string_view direction,
                                      const std::string& prefix) {
  return {"iptables", "-w",    std::string(action), "FORWARD", std::string(direction), prefix + "+",
          "-j",       "ACCEPT"};
}

}  // namespace

Result<void> accept_in_foreign_firewall(const std::string& prefix) {
  if (find_program("iptables").empty()) {
    return {};
  }
  const auto rules = run_program({"iptables", "-w", "-S", "FORWARD"});
  if (!rules || !rules->starts_with("-P FORWARD DROP")) {
    return {};  // without such a policy (or any iptables in the kernel) there is nothing to pass
  }
  for (const auto direction : {"-i", "-o"}) {
    if (!run_program(foreign_rule("-C", direction, prefix))) {
      RETURN_IF_ERROR(run_program(foreign_rule("-I", direction, prefix)));
    }
  }
  return {};
}

Result<void> forget_in_foreign_firewall(const std::string& prefix) {
  if (find_program("iptables").empty()) {
    return {};
  }
  for (const auto direction : {"-i", "-o"}) {
    if (run_program(foreign_rule("-C", direction, prefix))) {
      RETURN_IF_ERROR(run_program(foreign_rule("-D", direction, prefix)));
    }
  }
  return {};
}

}  // namespace node
