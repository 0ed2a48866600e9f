// Cgroups of sandboxes: <hierarchy>/<prefix>/<name> on cgroup v2, on v1 with an empty v2 tree
// beside it (hybrid: the v2 tree then serves for killing), and on v1 alone. Owned by the node;
// its only thread; every call is some writes to cgroup files. Errors are code io and name the
// file; a failing make() leaves nothing behind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "model/sandbox.h"

namespace node {

struct CgroupEntry {
  // v1: the child writes "0" to each (its pid in cgroup.procs would wait for a grace period).
  std::vector<base::Fd> tasks;
  // The v2 folder, for CLONE_INTO_CGROUP and, delegated, for the agent; invalid on v1 alone.
  base::Fd v2_folder;
  // The file with the line "oom_kill N", read afresh by pread at 0.
  base::Fd oom_counter;
};

enum class CgroupLayout { v2, hybrid, v1 };
std::string_view to_string(CgroupLayout layout);

// Where this host mounts what: the absolute folder of each, empty if absent.
struct CgroupMounts {
  std::string v2;
  std::string v1_cpu;
  std::string v1_memory;
  std::string v1_pids;
};
// Of a /proc/<pid>/mountinfo text. A controller that is part of v2 has no v1 folder.
CgroupMounts parse_cgroup_mounts(std::string_view mountinfo);
// The N of the line "oom_kill N"; 0 without such a line.
int64_t parse_oom_kills(std::string_view text);

// What the processes of a sandbox use now, as the kernel counts it against the limits.
// kUsageUnknown where this host does not count it.
inline constexpr int64_t kUsageUnknown = -1;
struct CgroupUsage {
  int64_t cpu_usec = kUsageUnknown;  // since the sandbox began
  int64_t memory_bytes = kUsageUnknown;
  int64_t pids = kUsageUnknown;
};
// The N of the line "usage_usec N" of a cpu.stat text.
int64_t parse_cpu_usage(std::string_view text);

class Cgroups {
 public:
  // Detects the layout and makes the prefix's folders. Fails (unavailable) where cpu, memory or
  // pids cannot be limited.
  static base::Result<std::unique_ptr<Cgroups>> open(const std::string& prefix);

  // All of a sandbox's cgroups, without limits yet. In the v2 tree `delegate_uid` may make
  // children and move processes between them, not change the limits.
  base::Result<CgroupEntry> make(const std::string& name, uint32_t delegate_uid);
  // One that holds others ("s1" for "s1/c0") and no process itself.
  base::Result<void> make_parent(const std::string& name);
  base::Result<void> limit(const std::string& name, const model::Resources& resources);
  // Sends KILL to everything in it, children included; they are gone a moment later (empty()).
  base::Result<void> kill(const std::string& name);
  base::Result<bool> empty(const std::string& name);
  // With the children that the sandbox made. Absent is fine; EBUSY while a process is in it.
  base::Result<void> remove(const std::string& name);
  base::Result<std::vector<std::string>> list();
  base::Result<int64_t> oom_kills(const std::string& name);
  [[nodiscard]] CgroupUsage usage(const std::string& name) const;
  // Again the descriptors of an existing one.
  base::Result<CgroupEntry> find(const std::string& name);
  // Removes the prefix's own folders; fails while there are sandboxes. For `down` and tests.
  base::Result<void> close();

  [[nodiscard]] CgroupLayout layout() const { return layout_; }
  // The prefix's folder in the v2 tree; "" on v1 alone.
  [[nodiscard]] const std::string& v2_folder() const { return roots_.v2; }

 private:
  Cgroups(CgroupLayout layout, CgroupMounts roots) : layout_(layout), roots_(std::move(roots)) {}

  base::Result<CgroupEntry> make_folders(const std::string& name, uint32_t delegate_uid);
  base::Result<void> limit_v1(const std::string& name, const model::Resources& resources);
  base::Result<void> limit_v2(const std::string& name, const model::Resources& resources);
  base::Result<void> kill_v1(const std::string& name);
  [[nodiscard]] std::vector<std::string> folders() const;
  [[nodiscard]] std::string memory_file(const std::string& name) const;

  CgroupLayout layout_;
  CgroupMounts roots_;  // the prefix's folder in each hierarchy
};

}  // namespace node
