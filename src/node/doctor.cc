#include "node/doctor.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "base/text.h"

namespace node {

using base::cat;

namespace {

// Debian 12's; older ones lack what the launcher is built on.
constexpr std::pair kKernelMin(6, 1);
constexpr std::pair kKernelWithSimpleQuotas(6, 7);
// All user namespaces that root makes share root's: a few file watchers exhaust the default 128.
constexpr int64_t kInotifyInstancesMin = 8192;
// Ours are permanent entries, which do not count; the host's own network needs the rest.
constexpr int64_t kNeighbourThresholdMin = 1024;
constexpr int64_t kPtyMin = 4096;
// A thousand sandboxes with a hundred processes each.
constexpr int64_t kPidMin = 131'072;
// Some ten descriptors a sandbox.
constexpr int64_t kOpenFilesMin = 16'384;

Check passed(std::string name, std::string message) {
  return {.name = std::move(name), .ok = true, .message = std::move(message)};
}
Check lacking(std::string name, std::string message, std::string mend) {
  return {.name = std::move(name), .message = std::move(message), .mend = std::move(mend)};
}
Check fatal(std::string name, std::string message, std::string mend) {
  auto check = lacking(std::move(name), std::move(message), std::move(mend));
  check.fatal = true;
  return check;
}

Check judge_kernel(const HostFacts& facts) {
  const auto version = parse_kernel_release(facts.kernel_release);
  if (version < kKernelMin) {
    return fatal("kernel", cat("kernel ", facts.kernel_release, " is older than 6.1"),
                 "install a kernel of version 6.1 or newer");
  }
  return passed("kernel", cat("kernel ", facts.kernel_release));
}

Check judge_namespaces(const HostFacts& facts) {
  if (!facts.missing_namespaces.empty()) {
    std::string names;
    for (const auto& name : facts.missing_namespaces) {
      names += cat(names.empty() ? "" : ", ", name);
    }
    return fatal("namespaces", cat("the kernel has no namespaces of kind: ", names),
                 "use a kernel built with them");
  }
  return passed("namespaces", "all kinds are there");
}

Check judge_user_namespaces(const HostFacts& facts) {
  if (!facts.user_namespaces) {
    return fatal("user namespaces", "switched off", "sysctl -w user.max_user_namespaces=65536");
  }
  return passed("user namespaces", "allowed");
}

Check judge_cgroups(const HostFacts& facts) {
  if (!facts.cgroup_problem.empty()) {
    return fatal("cgroups", facts.cgroup_problem,
                 "boot with systemd.unified_cgroup_hierarchy=1, or mount the controllers");
  }
  if (facts.cgroup_layout == "v1") {
    return lacking("cgroups", "v1 without a v2 tree: killing a command's whole tree is slower",
                   "mkdir -p /sys/fs/cgroup/unified && "
                   "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified");
  }
  return passed("cgroups", facts.cgroup_layout);
}

Check judge_storage(const HostFacts& facts) {
  if (!facts.btrfs) {
    return lacking("storage", "no btrfs: project quotas of xfs or ext4, or memory, serve instead",
                   "modprobe btrfs");
  }
  if (!facts.mkfs_btrfs) {
    return lacking("storage", "no mkfs.btrfs: a storage pool cannot be made",
                   "apt-get install btrfs-progs");
  }
  if (parse_kernel_release(facts.kernel_release) < kKernelWithSimpleQuotas) {
    return passed("storage", "btrfs with classic quota groups (simple quotas need kernel 6.7)");
  }
  return passed("storage", "btrfs with simple quotas");
}

Check judge_forward(const HostFacts& facts) {
  if (facts.iptables_forward_drop) {
    return lacking(
        "forward policy",
        "iptables drops forwarded packets (Docker sets this); the node adds accept rules "
        "for its own interfaces, which a reload of the firewall removes",
        "iptables -P FORWARD ACCEPT");
  }
  return passed("forward policy", "does not drop forwarded packets");
}

Check judge_number(std::string name, std::optional<int64_t> found, int64_t least,
                   std::string_view meaning, std::string mend) {
  if (!found) {
    return lacking(std::move(name), "could not be read", "");
  }
  if (*found < least) {
    return lacking(std::move(name), cat(*found, " is below ", least, ": ", meaning),
                   std::move(mend));
  }
  return passed(std::move(name), cat(*found));
}

}  // namespace

std::pair<int, int> parse_kernel_release(std::string_view release) {
  const auto dot = release.find('.');
  if (dot == std::string_view::npos) {
    return {0, 0};
  }
  const auto rest = release.substr(dot + 1);
  const auto digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  const auto major = base::parse_number<int>(release.substr(0, dot));
  const auto minor = base::parse_number<int>(digits);
  return major && minor ? std::pair(*major, *minor) : std::pair(0, 0);
}

std::vector<Check> judge(const HostFacts& facts) {
  std::vector<Check> checks = {judge_kernel(facts), judge_namespaces(facts),
                               judge_user_namespaces(facts), judge_cgroups(facts)};
  checks.push_back(facts.overlay ? passed("overlay", "known to the kernel")
                                 : fatal("overlay", "the kernel has no overlay file system",
                                         "modprobe overlay"));
  checks.push_back(facts.id_mapped_problem ? fatal("id-mapped mounts", *facts.id_mapped_problem,
                                                   "keep the node's data on ext4, xfs or btrfs")
                                           : passed("id-mapped mounts", "work"));
  checks.push_back(judge_storage(facts));
  checks.push_back(facts.nft ? passed("nft", "is there")
                             : fatal("nft", "no program nft: there would be no firewall",
                                     "apt-get install nftables"));
  checks.push_back(judge_forward(facts));
  checks.push_back(passed("ip forwarding",
                          facts.ip_forward ? "on" : "off; the node switches it on at its start"));
  checks.push_back(
      judge_number("inotify instances", facts.inotify_instances, kInotifyInstancesMin,
                   "all sandboxes share them, file watchers will fail",
                   cat("sysctl -w fs.inotify.max_user_instances=", kInotifyInstancesMin)));
  checks.push_back(
      judge_number("neighbour table", facts.neighbour_threshold, kNeighbourThresholdMin,
                   "the host's own network may stall",
                   cat("sysctl -w net.ipv4.neigh.default.gc_thresh3=", kNeighbourThresholdMin)));
  checks.push_back(judge_number("terminals", facts.pty_max, kPtyMin,
                                "all sandboxes share them, terminals will fail to open",
                                cat("sysctl -w kernel.pty.max=", kPtyMin)));
  checks.push_back(judge_number("process ids", facts.pid_max, kPidMin,
                                "all sandboxes share them, commands will fail to start",
                                "sysctl -w kernel.pid_max=4194304"));
  checks.push_back(judge_number("open files", facts.open_files_max, kOpenFilesMin,
                                "few sandboxes can be held at once", "ulimit -Hn 1048576"));
  return checks;
}

Check check_builder(const std::string& builder_root) {
  const auto has = [&builder_root](std::string_view program) {
    return ::access(cat(builder_root, program).c_str(), X_OK) == 0;
  };
  constexpr std::string_view kBuildKit = "/bin/buildkitd";
  constexpr std::string_view kBuildah = "/bin/buildah";
  for (const std::string_view program : std::array<std::string_view, 3>{
           "/bin/sandbox-builder", "/bin/runc", has(kBuildah) ? kBuildah : kBuildKit}) {
    if (!has(program)) {
      return lacking("image builds",
                     cat("no ", builder_root, program, ": images cannot be built here"),
                     cat("tools/builder.py ", builder_root));
    }
  }
  return passed("image builds",
                cat(has(kBuildKit) ? "by BuildKit" : "by buildah", " in ", builder_root));
}

std::vector<Check> run_doctor(const std::string& builder_root) {
  auto checks = judge(read_host_facts());
  checks.push_back(check_builder(builder_root));
  return checks;
}

}  // namespace node
