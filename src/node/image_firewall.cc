#include "node/image_firewall.h"

#include "node/program.h"

namespace node {
namespace {

using base::cat;

constexpr uint32_t kIds = 65536;
// Inside ids of image/skopeo.h; 1 is the id that may talk to loopback.
constexpr uint32_t kAwayFromLoopbackId = 2;

}  // namespace

base::Result<void> keep_helper_local(const std::string& prefix, uint32_t id_base) {
  const std::string table = cat("inet ", prefix, "_images");
  const std::string ids = cat(id_base, "-", id_base + kIds - 1);
  const uint32_t away = id_base + kAwayFromLoopbackId;
  // Declaring the table first makes the deletion work where there is none yet.
  const std::string rules = cat(
      "table ", table, " {}\ndelete table ", table, "\ntable ", table,
      " {\n  chain output {\n    type filter hook output priority 0; policy accept;\n",
      "    meta skuid ", ids, " ip daddr 169.254.0.0/16 reject\n", "    meta skuid ", ids,
      " ip6 daddr fe80::/10 reject\n", "    meta skuid ", away,
      " ip daddr 127.0.0.0/8 meta l4proto { tcp, udp } th dport != 53 reject\n", "    meta skuid ",
      away, " ip6 daddr ::1 meta l4proto { tcp, udp } th dport != 53 reject\n", "  }\n}\n");
  RETURN_IF_ERROR(run_program({"nft", "-f", "-"}, rules));
  return {};
}

base::Result<void> forget_helper(const std::string& prefix) {
  const std::string table = cat("table inet ", prefix, "_images");
  RETURN_IF_ERROR(run_program({"nft", "-f", "-"}, cat(table, " {}\ndelete ", table, "\n")));
  return {};
}

}  // namespace node
