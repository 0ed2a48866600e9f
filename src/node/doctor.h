// What this host lacks to run sandboxes well, and the command that mends it: `sandbox-node doctor`.
// Reading the host and judging what was read are two steps, so the judgement is tested as data.
// Stateless; reads only, but for mounts in a namespace of a child that ends with the check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace node {

struct Check {
  std::string name;
  bool ok = false;
  std::string message;  // what was found, and if not ok what that means
  std::string mend;     // a command, or empty
  bool fatal = false;   // not ok: no sandbox can start at all
};

// Everything the judgement needs. nullopt: could not be read.
struct HostFacts {
  std::string kernel_release;
  bool user_namespaces = false;
  std::vector<std::string> missing_namespaces;
  std::string cgroup_layout;  // "v2", "hybrid", "v1" or empty with cgroup_problem set
  std::string cgroup_problem;
  bool overlay = false;
  std::optional<std::string> id_mapped_problem;  // nullopt: works
  bool btrfs = false;
  bool mkfs_btrfs = false;
  bool nft = false;
  bool iptables_forward_drop = false;
  bool ip_forward = false;
  std::optional<int64_t> inotify_instances;
  std::optional<int64_t> neighbour_threshold;
  std::optional<int64_t> pty_max;
  std::optional<int64_t> pid_max;
  std::optional<int64_t> open_files_max;
};

HostFacts read_host_facts();
std::vector<Check> judge(const HostFacts& facts);
// `builder_root`: the root file system of image builders, which need not be there.
Check check_builder(const std::string& builder_root);
std::vector<Check> run_doctor(const std::string& builder_root);

// {6, 18} of "6.18.44-fc"; {0, 0} if it is no release.
std::pair<int, int> parse_kernel_release(std::string_view release);

}  // namespace node
