#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/fd.h"
#include "base/sys.h"
#include "node/cgroups.h"
#include "node/doctor.h"
#include "node/program.h"

namespace node {

using base::cat;
using base::fail_errno;
using base::Fd;
using base::Result;

namespace {

constexpr size_t kSmallFileBytesMax = size_t{64} * 1024;
constexpr size_t kMountinfoBytesMax = 16 << 20;
constexpr size_t kChildStackBytes = size_t{64} * 1024;
constexpr std::array<const char*, 7> kNameSpaces = {"user", "mnt", "pid",   "net",
                                                    "ipc",  "uts", "cgroup"};
// Where the node's data usually is; its file system has to allow id-mapped mounts.
constexpr const char* kDataFolder = "/var/lib";

std::optional<int64_t> read_number(const std::string& path) {
  const auto text = base::sys::read_file(path, kSmallFileBytesMax);
  return text ? base::parse_number<int64_t>(base::split(*text, '\n').front()) : std::nullopt;
}

int wait_to_be_killed(void*) {
  for (;;) {
    ::pause();
  }
}

// A user namespace lives as long as a process in it or a descriptor of it.
Result<Fd> make_user_name_space() {
  alignas(16) static std::array<char, kChildStackBytes> stack;
  const auto pid =
      ::clone(wait_to_be_killed, stack.data() + stack.size(), CLONE_NEWUSER | SIGCHLD, nullptr);
  if (pid < 0) {
    return fail_errno(errno, "make a user namespace");
  }
  auto mapped = base::sys::write_file(cat("/proc/", pid, "/uid_map"), "0 2000000 65536");
  if (mapped) {
    mapped = base::sys::write_file(cat("/proc/", pid, "/gid_map"), "0 2000000 65536");
  }
  auto name_space = base::sys::open(cat("/proc/", pid, "/ns/user"), O_RDONLY);
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  RETURN_IF_ERROR(mapped);
  return name_space;
}

// On a detached copy of the mount, which nothing else ever sees.
Result<void> try_id_mapped_mount() {
  ASSIGN_OR_RETURN(const auto name_space, make_user_name_space());
  const Fd tree(static_cast<int>(
      ::syscall(SYS_open_tree, AT_FDCWD, kDataFolder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (!tree) {
    return fail_errno(errno, "copy the mount of ", kDataFolder);
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<uint64_t>(name_space.get());
  if (::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) !=
      0) {
    return fail_errno(errno, "id-map the mount of ", kDataFolder);
  }
  return {};
}

void read_cgroups(HostFacts& facts) {
  const auto mountinfo = base::sys::read_file("/proc/self/mountinfo", kMountinfoBytesMax);
  const auto mounts = parse_cgroup_mounts(mountinfo.value_or(""));
  if (!mounts.v1_cpu.empty() && !mounts.v1_memory.empty() && !mounts.v1_pids.empty()) {
    facts.cgroup_layout = to_string(mounts.v2.empty() ? CgroupLayout::v1 : CgroupLayout::hybrid);
    return;
  }
  const auto controllers =
      base::sys::read_file(cat(mounts.v2, "/cgroup.controllers"), kSmallFileBytesMax).value_or("");
  const auto words = base::split(base::split(controllers, '\n').front(), ' ');
  for (const auto* wanted : {"cpu", "memory", "pids"}) {
    if (std::ranges::find(words, wanted) == words.end()) {
      facts.cgroup_problem +=
          cat(facts.cgroup_problem.empty() ? "no cgroup controller " : ", ", wanted);
    }
  }
  facts.cgroup_layout = facts.cgroup_problem.empty() ? "v2" : "";
}

void read_file_systems(HostFacts& facts) {
  const auto text = base::sys::read_file("/proc/filesystems", kSmallFileBytesMax).value_or("");
  for (const auto line : base::split(text, '\n')) {
    const auto name = base::trim(line.starts_with("nodev") ? line.substr(5) : line);
    facts.overlay = facts.overlay || name == "overlay";
    facts.btrfs = facts.btrfs || name == "btrfs";
  }
}

void read_limits(HostFacts& facts) {
  facts.inotify_instances = read_number("/proc/sys/fs/inotify/max_user_instances");
  facts.neighbour_threshold = read_number("/proc/sys/net/ipv4/neigh/default/gc_thresh3");
  facts.pty_max = read_number("/proc/sys/kernel/pty/max");
  facts.pid_max = read_number("/proc/sys/kernel/pid_max");
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    facts.open_files_max =
        files.rlim_max == RLIM_INFINITY ? INT64_MAX : static_cast<int64_t>(files.rlim_max);
  }
}

}  // namespace

HostFacts read_host_facts() {
  HostFacts facts;
  utsname names{};
  if (::uname(&names) == 0) {
    facts.kernel_release = static_cast<const char*>(names.release);
  }
  for (const auto* name : kNameSpaces) {
    if (::access(cat("/proc/self/ns/", name).c_str(), F_OK) != 0) {
      facts.missing_namespaces.emplace_back(name);
    }
  }
  facts.user_namespaces = read_number("/proc/sys/user/max_user_namespaces").value_or(0) > 0;
  read_cgroups(facts);
  read_file_systems(facts);
  auto id_mapped = try_id_mapped_mount();
  if (!id_mapped) {
    facts.id_mapped_problem = id_mapped.error().message;
  }
  facts.mkfs_btrfs = !find_program("mkfs.btrfs").empty();
  facts.nft = !find_program("nft").empty();
  const auto forward = find_program("iptables").empty()
                           ? base::Result<std::string>("")
                           : run_program({"iptables", "-w", "-S", "FORWARD"});
  facts.iptables_forward_drop = forward && forward->starts_with("-P FORWARD DROP");
  facts.ip_forward = read_number("/proc/sys/net/ipv4/ip_forward") == 1;
  read_limits(facts);
  return facts;
}

}  // namespace node
