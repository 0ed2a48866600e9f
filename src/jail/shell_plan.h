// What the launcher's child works from: plain data, filled in by the node before clone3 and read by
// the child from its own copy of the memory, and the two orders that follow over the control
// socket (with their descriptors in the order of the enums).
#pragma once

#include <linux/filter.h>

#include <array>
#include <cstdint>
#include <span>

namespace jail {

// What a shell becomes. A builder has the whole of its own /proc and the capabilities and calls
// that mounts and namespaces take; all of that within its user namespace, whose ids nobody else
// has.
enum class Profile : uint8_t { sandbox, builder };

inline constexpr size_t kCgroupsMax = 8;    // v1 hierarchies a shell enters
inline constexpr size_t kHostnameMax = 64;  // HOST_NAME_MAX of Linux

struct ShellPlan {
  int control = -1;    // the child's end of a SEQPACKET pair
  int agent = -1;      // the agent's sealed executable
  int v2_folder = -1;  // of the agent's command groups; -1: none
  std::array<int, kCgroupsMax> cgroup_tasks{};
  size_t cgroup_tasks_count = 0;
  bool reset_oom_score = false;  // the node's own is not 0
  Profile profile = Profile::sandbox;
  uint64_t open_files = 0;                 // soft and hard limit
  const char* const* arguments = nullptr;  // of the agent, ended by a null pointer
  std::span<const sock_filter> filter_policy;
  std::span<const sock_filter> filter_last;
};

// First: the id maps are written. Comes with kFirstOrderFds descriptors: sysfs, dev template.
struct FirstOrder {
  uint32_t magic = 1;
};
enum FirstOrderFd : uint8_t { kSysFd, kDevFd, kFirstOrderFds };

inline constexpr size_t kMountsMax = 16;
inline constexpr size_t kMountTargetMax = 255;

// Second: start the sandbox. The optional descriptors come last, in the order of the flags, those
// of the mounts behind them.
struct SecondOrder {
  std::array<char, kHostnameMax + 1> hostname{};
  bool no_new_privileges = false;
  bool has_oom_counter = false;
  bool has_spool = false;
  bool has_state = false;  // a builder's: a detached mount
  // Detached mounts and where each goes: absolute, without "." and "..".
  size_t mounts_count = 0;
  std::array<std::array<char, kMountTargetMax + 1>, kMountsMax> mount_targets{};
};
enum SecondOrderFd : uint8_t { kRootFd, kListenFd, kConfigFd, kSecondOrderFdsMin };
inline constexpr size_t kSecondOrderFdsMax = kSecondOrderFdsMin + 3 + kMountsMax;

// Where a builder's state is mounted: file systems that are stacked again cannot lie on its root.
inline constexpr char kStateFolder[] = "state";

// The agent's descriptors (api/agent-protocol.md).
inline constexpr int kAgentListenFd = 3;
inline constexpr int kAgentConfigFd = 4;
inline constexpr int kAgentCgroupFd = 5;
inline constexpr int kAgentOomFd = 6;
inline constexpr int kAgentSpoolFd = 7;
// For each mount, what the image has where it was mounted; from here on, in their order.
inline constexpr int kAgentCoveredFd = 8;

// The process's name until the agent is executed: how a restarted node tells a shell from a
// sandbox whose agent runs.
inline constexpr char kShellName[] = "sandbox-shell";

// Runs in the child of clone3 and never returns: ends in the agent, or reports a Failure over the
// control socket and exits. Allocates nothing, takes no lock, writes no log.
[[noreturn]] void run_shell(const ShellPlan& plan) noexcept;

}  // namespace jail
