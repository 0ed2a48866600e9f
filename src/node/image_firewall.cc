#include "node/image_firewall.h"

#include "node/nftables.h"

namespace node {
namespace {

using base::cat;

constexpr uint32_t kIds = 65536;
// Inside ids of image/skopeo.h; 1 is the id that may talk to loopback.
constexpr uint32_t kAwayFromLoopbackId = 2;

std::string table_of(const std::string& prefix) { return prefix + "_images"; }

}  // namespace

base::Result<void> keep_helper_local(const std::string& prefix, uint32_t id_base) {
  const std::string table = table_of(prefix);
  const std::string ids = cat(id_base, "-", id_base + kIds - 1);
  const uint32_t away = id_base + kAwayFromLoopbackId;
  return load_rules(cat(
      without_table(table), "table inet ", table,
      " {\n  chain output {\n    type filter hook output priority 0; policy accept;\n",
      "    meta skuid ", ids, " ip daddr 169.254.0.0/16 reject\n", "    meta skuid ", ids,
      " ip6 daddr fe80::/10 reject\n", "    meta skuid ", away,
      " ip daddr 127.0.0.0/8 meta l4proto { tcp, udp } th dport != 53 reject\n", "    meta skuid ",
      away, " ip6 daddr ::1 meta l4proto { tcp, udp } th dport != 53 reject\n", "  }\n}\n"));
}

base::Result<void> forget_helper(const std::string& prefix) {
  return load_rules(without_table(table_of(prefix)));
}

}  // namespace node
