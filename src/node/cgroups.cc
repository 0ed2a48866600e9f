#include "node/cgroups.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

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

// The kernel's default, and what quotas are counted against.
constexpr int64_t kCpuPeriodMicroseconds = 100'000;
constexpr int64_t kMicrosecondsPerMillicpu = kCpuPeriodMicroseconds / 1000;
// The kernel refuses a quota below 1 ms.
constexpr int64_t kCpuQuotaMicrosecondsMin = 1000;
constexpr int64_t kBytesPerMb = 1 << 20;
// A group per running command, with room for what runs inside (an init system, a builder); each
// costs the host a few KiB that no limit counts.
constexpr int kDescendantsMax = 2048;
constexpr int kDepthMax = 8;
constexpr size_t kCgroupFileBytesMax = 1 << 20;
constexpr size_t kMountinfoBytesMax = 16 << 20;
// Each round kills all that were there; new ones come only from a fork that was running.
constexpr int kKillRoundsMax = 64;

constexpr std::array<const char*, 3> kDelegatedFiles = {"cgroup.procs", "cgroup.threads",
                                                        "cgroup.subtree_control"};

bool has(const auto& list, const auto& wanted) {
  return std::ranges::find(list, wanted) != list.end();
}

bool has_option(std::string_view options, std::string_view wanted) {
  return has(base::split(options, ','), wanted);
}

Result<void> write_limit(const std::string& folder, const char* file, const std::string& value) {
  return base::sys::write_file(cat(folder, '/', file), value);
}

// A file that this kernel may not have (swap accounting off, an older kernel).
Result<void> write_optional(const std::string& folder, const char* file, const std::string& value) {
  auto written = write_limit(folder, file, value);
  if (!written && written.error().errno_value != ENOENT) {
    return written;
  }
  return {};
}

Result<void> remove_folders(const std::string& folder, int depth) {
  if (::rmdir(folder.c_str()) == 0 || errno == ENOENT) {
    return {};
  }
  if (errno != EBUSY || depth == 0) {
    return fail_errno(errno, "remove cgroup ", folder);
  }
  ASSIGN_OR_RETURN(const auto children, base::sys::list_subfolders(folder));
  for (const auto& child : children) {
    RETURN_IF_ERROR(remove_folders(cat(folder, '/', child), depth - 1));
  }
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(errno, "remove cgroup ", folder);
  }
  return {};
}

// v2: a controller has to be switched on in every folder above the one that it limits.
Result<void> enable_controllers(const std::string& folder) {
  return base::with_context(write_limit(folder, "cgroup.subtree_control", "+cpu +memory +pids"),
                            "enable the controllers");
}

Result<void> delegate(const std::string& folder, uint32_t uid) {
  if (::chown(folder.c_str(), uid, uid) != 0) {
    return fail_errno(errno, "chown ", folder);
  }
  for (const auto* file : kDelegatedFiles) {
    const auto path = cat(folder, '/', file);
    if (::chown(path.c_str(), uid, uid) != 0 && errno != ENOENT) {
      return fail_errno(errno, "chown ", path);
    }
  }
  RETURN_IF_ERROR(write_optional(folder, "cgroup.max.descendants", cat(kDescendantsMax)));
  return write_optional(folder, "cgroup.max.depth", cat(kDepthMax));
}

}  // namespace

std::string_view to_string(CgroupLayout layout) {
  switch (layout) {
    case CgroupLayout::v2:
      return "v2";
    case CgroupLayout::hybrid:
      return "hybrid";
    case CgroupLayout::v1:
      return "v1";
  }
  return "?";
}

CgroupMounts parse_cgroup_mounts(std::string_view mountinfo) {
  CgroupMounts mounts;
  const auto keep_first = [](std::string& into, std::string_view folder) {
    if (into.empty()) {
      into = folder;
    }
  };
  for (const auto line : base::split(mountinfo, '\n')) {
    // "36 35 0:21 / /sys/fs/cgroup/cpu rw,... [optional fields] - cgroup cgroup rw,cpu"
    const auto fields = base::split(line, ' ');
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 10 || fields.end() - dash < 4) {
      continue;
    }
    const auto folder = fields[4];
    if (dash[1] == "cgroup2") {
      keep_first(mounts.v2, folder);
    } else if (dash[1] == "cgroup") {
      for (const auto& [name, into] :
           {std::pair("cpu", &mounts.v1_cpu), std::pair("memory", &mounts.v1_memory),
            std::pair("pids", &mounts.v1_pids)}) {
        if (has_option(dash[3], name)) {
          keep_first(*into, folder);
        }
      }
    }
  }
  return mounts;
}

int64_t parse_cpu_usage(std::string_view text) {
  constexpr std::string_view kName = "usage_usec ";
  for (const auto line : base::split(text, '\n')) {
    if (line.starts_with(kName)) {
      return base::parse_number<int64_t>(line.substr(kName.size())).value_or(kUsageUnknown);
    }
  }
  return kUsageUnknown;
}

int64_t parse_oom_kills(std::string_view text) {
  for (const auto line : base::split(text, '\n')) {
    if (line.starts_with("oom_kill ")) {
      return base::parse_number<int64_t>(line.substr(line.find(' ') + 1)).value_or(0);
    }
  }
  return 0;
}

Result<std::unique_ptr<Cgroups>> Cgroups::open(const std::string& prefix) {
  ASSIGN_OR_RETURN(const auto mountinfo,
                   base::sys::read_file("/proc/self/mountinfo", kMountinfoBytesMax));
  auto mounts = parse_cgroup_mounts(mountinfo);
  const bool v1_is_whole =
      !mounts.v1_cpu.empty() && !mounts.v1_memory.empty() && !mounts.v1_pids.empty();
  auto layout = CgroupLayout::v1;
  if (!v1_is_whole) {
    if (mounts.v2.empty()) {
      return fail(ErrorCode::unavailable, "no cgroup hierarchy can limit cpu, memory and pids");
    }
    layout = CgroupLayout::v2;
    RETURN_IF_ERROR(enable_controllers(mounts.v2));
  } else if (!mounts.v2.empty()) {
    layout = CgroupLayout::hybrid;
  }
  for (auto* root : {&mounts.v2, &mounts.v1_cpu, &mounts.v1_memory, &mounts.v1_pids}) {
    if (!root->empty()) {
      *root = cat(*root, '/', prefix);
    }
  }
  if (layout == CgroupLayout::v2) {
    mounts.v1_cpu = mounts.v1_memory = mounts.v1_pids = {};
  }
  std::unique_ptr<Cgroups> cgroups(new Cgroups(layout, std::move(mounts)));
  for (const auto& folder : cgroups->folders()) {
    RETURN_IF_ERROR(base::sys::make_folder(folder, 0755));
  }
  if (layout == CgroupLayout::v2) {
    RETURN_IF_ERROR(enable_controllers(cgroups->roots_.v2));
  }
  return cgroups;
}

// Each hierarchy once: cpu and memory may be mounted together.
std::vector<std::string> Cgroups::folders() const {
  std::vector<std::string> folders;
  for (const auto* root : {&roots_.v2, &roots_.v1_cpu, &roots_.v1_memory, &roots_.v1_pids}) {
    if (!root->empty() && !has(folders, *root)) {
      folders.push_back(*root);
    }
  }
  return folders;
}

std::string Cgroups::memory_file(const std::string& name) const {
  return layout_ == CgroupLayout::v2 ? cat(roots_.v2, '/', name, "/memory.events")
                                     : cat(roots_.v1_memory, '/', name, "/memory.oom_control");
}

Result<CgroupEntry> Cgroups::make(const std::string& name, uint32_t delegate_uid) {
  auto entry = make_folders(name, delegate_uid);
  if (!entry && entry.error().errno_value != EEXIST) {
    (void)remove(name);
  }
  return entry;
}

Result<void> Cgroups::make_parent(const std::string& name) {
  for (const auto& folder : folders()) {
    const auto path = cat(folder, '/', name);
    if (::mkdir(path.c_str(), 0755) != 0) {
      return fail_errno(errno, "make cgroup ", path);
    }
  }
  return layout_ == CgroupLayout::v2 ? enable_controllers(cat(roots_.v2, '/', name))
                                     : Result<void>{};
}

Result<CgroupEntry> Cgroups::make_folders(const std::string& name, uint32_t delegate_uid) {
  for (const auto& folder : folders()) {
    const auto path = cat(folder, '/', name);
    if (::mkdir(path.c_str(), 0755) != 0) {
      return fail_errno(errno, "make cgroup ", path);
    }
  }
  if (!roots_.v2.empty()) {
    RETURN_IF_ERROR(delegate(cat(roots_.v2, '/', name), delegate_uid));
  }
  return find(name);
}

Result<CgroupEntry> Cgroups::find(const std::string& name) {
  CgroupEntry entry;
  for (const auto& folder : folders()) {
    if (folder == roots_.v2) {
      ASSIGN_OR_RETURN(entry.v2_folder,
                       base::sys::open(cat(folder, '/', name), O_RDONLY | O_DIRECTORY));
    } else {
      ASSIGN_OR_RETURN(auto tasks, base::sys::open(cat(folder, '/', name, "/tasks"), O_WRONLY));
      entry.tasks.push_back(std::move(tasks));
    }
  }
  ASSIGN_OR_RETURN(entry.oom_counter, base::sys::open(memory_file(name), O_RDONLY));
  return entry;
}

Result<void> Cgroups::limit(const std::string& name, const model::Resources& resources) {
  return layout_ == CgroupLayout::v2 ? limit_v2(name, resources) : limit_v1(name, resources);
}

Result<void> Cgroups::limit_v1(const std::string& name, const model::Resources& resources) {
  const auto memory = cat(roots_.v1_memory, '/', name);
  const auto bytes = cat(resources.memory_mb * kBytesPerMb);
  // Memory and swap together may never be below memory alone: growing sets them the other way
  // round.
  if (!write_limit(memory, "memory.limit_in_bytes", bytes)) {
    RETURN_IF_ERROR(write_optional(memory, "memory.memsw.limit_in_bytes", bytes));
    RETURN_IF_ERROR(write_limit(memory, "memory.limit_in_bytes", bytes));
  } else {
    RETURN_IF_ERROR(write_optional(memory, "memory.memsw.limit_in_bytes", bytes));
  }
  RETURN_IF_ERROR(write_optional(memory, "memory.swappiness", "0"));
  const auto quota =
      std::max(resources.millicpus * kMicrosecondsPerMillicpu, kCpuQuotaMicrosecondsMin);
  RETURN_IF_ERROR(write_limit(cat(roots_.v1_cpu, '/', name), "cpu.cfs_quota_us", cat(quota)));
  return write_limit(cat(roots_.v1_pids, '/', name), "pids.max", cat(resources.pids));
}

Result<void> Cgroups::limit_v2(const std::string& name, const model::Resources& resources) {
  const auto folder = cat(roots_.v2, '/', name);
  RETURN_IF_ERROR(write_limit(folder, "memory.max", cat(resources.memory_mb * kBytesPerMb)));
  RETURN_IF_ERROR(write_optional(folder, "memory.swap.max", "0"));
  const auto quota =
      std::max(resources.millicpus * kMicrosecondsPerMillicpu, kCpuQuotaMicrosecondsMin);
  RETURN_IF_ERROR(write_limit(folder, "cpu.max", cat(quota, ' ', kCpuPeriodMicroseconds)));
  return write_limit(folder, "pids.max", cat(resources.pids));
}

Result<void> Cgroups::kill(const std::string& name) {
  if (roots_.v2.empty()) {
    return kill_v1(name);
  }
  auto killed = write_limit(cat(roots_.v2, '/', name), "cgroup.kill", "1");
  if (!killed && killed.error().errno_value != ENOENT) {
    return killed;
  }
  return {};
}

// Without a v2 tree: every process that is in it, until a round finds none that it has not killed.
Result<void> Cgroups::kill_v1(const std::string& name) {
  const auto folder = cat(roots_.v1_pids, '/', name);
  if (const auto children = base::sys::list_subfolders(folder)) {
    for (const auto& child : *children) {
      RETURN_IF_ERROR(kill_v1(cat(name, '/', child)));
    }
  }
  const auto file = folder + "/cgroup.procs";
  std::vector<pid_t> killed;
  for (int round = 0; round < kKillRoundsMax; ++round) {
    const auto text = base::sys::read_file(file, kCgroupFileBytesMax);
    if (!text) {
      return text.error().errno_value == ENOENT ? Result<void>{} : std::unexpected(text.error());
    }
    bool fresh = false;
    for (const auto line : base::split(*text, '\n')) {
      const auto pid = base::parse_number<pid_t>(line);
      if (pid && *pid > 0 && !has(killed, *pid)) {
        ::kill(*pid, SIGKILL);
        killed.push_back(*pid);
        fresh = true;
      }
    }
    if (!fresh) {
      return {};
    }
  }
  return {};
}

Result<bool> Cgroups::empty(const std::string& name) {
  const auto file = roots_.v2.empty() ? cat(roots_.v1_pids, '/', name, "/cgroup.procs")
                                      : cat(roots_.v2, '/', name, "/cgroup.events");
  const auto text = base::sys::read_file(file, kCgroupFileBytesMax);
  if (!text) {
    if (text.error().errno_value == ENOENT) {
      return true;
    }
    return std::unexpected(text.error());
  }
  return roots_.v2.empty() ? text->empty() : text->contains("populated 0");
}

Result<void> Cgroups::remove(const std::string& name) {
  for (const auto& folder : folders()) {
    RETURN_IF_ERROR(remove_folders(cat(folder, '/', name), kDepthMax));
  }
  return {};
}

Result<std::vector<std::string>> Cgroups::list() {
  std::vector<std::string> names;
  for (const auto& folder : folders()) {
    ASSIGN_OR_RETURN(const auto children, base::sys::list_subfolders(folder));
    for (const auto& child : children) {
      if (!has(names, child)) {
        names.push_back(child);
      }
    }
  }
  return names;
}

CgroupUsage Cgroups::usage(const std::string& name) const {
  const auto read = [&name](const std::string& root, const char* file) {
    const auto text = base::sys::read_file(cat(root, '/', name, '/', file), kCgroupFileBytesMax);
    return text.value_or(std::string());
  };
  const auto read_number = [&read](const std::string& root, const char* file) {
    const std::string text = read(root, file);
    const std::string_view number = std::string_view(text).substr(0, text.find('\n'));
    return base::parse_number<int64_t>(number).value_or(kUsageUnknown);
  };
  CgroupUsage usage;
  if (layout_ == CgroupLayout::v2) {
    usage.memory_bytes = read_number(roots_.v2, "memory.current");
    usage.pids = read_number(roots_.v2, "pids.current");
  } else {
    usage.memory_bytes = read_number(roots_.v1_memory, "memory.usage_in_bytes");
    usage.pids = read_number(roots_.v1_pids, "pids.current");
  }
  if (!roots_.v2.empty()) {
    // The v2 tree counts cpu time with or without its controller.
    usage.cpu_usec = parse_cpu_usage(read(roots_.v2, "cpu.stat"));
  } else if (const int64_t ns = read_number(roots_.v1_cpu, "cpuacct.usage"); ns >= 0) {
    constexpr int64_t kNsPerUsec = 1000;
    usage.cpu_usec = ns / kNsPerUsec;
  }
  return usage;
}

Result<int64_t> Cgroups::oom_kills(const std::string& name) {
  ASSIGN_OR_RETURN(const auto text, base::sys::read_file(memory_file(name), kCgroupFileBytesMax));
  return parse_oom_kills(text);
}

Result<void> Cgroups::close() {
  for (const auto& folder : folders()) {
    if (::rmdir(folder.c_str()) != 0 && errno != ENOENT) {
      return fail_errno(errno, "remove cgroup ", folder);
    }
  }
  return {};
}

}  // namespace node
