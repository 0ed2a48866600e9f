#include "jail/seccomp_filter.h"

#include <errno.h>
#include <linux/btrfs.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/fd.h"
#include "base/sys.h"

namespace jail {
namespace {

using base::ErrorCode;
using base::Fd;
using base::Result;

// Names that this architecture or this libseccomp does not know are skipped.
constexpr auto kAllowed = std::to_array<const char*>({
    "accept",
    "accept4",
    "access",
    "adjtimex",
    "alarm",
    "arch_prctl",
    "bind",
    "brk",
    "cachestat",
    "capget",
    "capset",
    "chdir",
    "chmod",
    "chown",
    "chroot",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fanotify_mark",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fork",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futex",
    "futex_requeue",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "futimesat",
    "getcpu",
    "getcwd",
    "getdents",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getitimer",
    "getpeername",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getrandom",
    "getresgid",
    "getresuid",
    "getrlimit",
    "get_robust_list",
    "getrusage",
    "getsid",
    "getsockname",
    "getsockopt",
    "get_thread_area",
    "gettid",
    "gettimeofday",
    "getuid",
    "getxattr",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "io_cancel",
    "ioctl",
    "io_destroy",
    "io_getevents",
    "io_pgetevents",
    "ioprio_get",
    "ioprio_set",
    "io_setup",
    "io_submit",
    "kill",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listen",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "madvise",
    "map_shadow_stack",
    "membarrier",
    "memfd_create",
    "memfd_secret",
    "mincore",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "mremap",
    "mseal",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "name_to_handle_at",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pause",
    "pidfd_open",
    "pidfd_send_signal",
    "pipe",
    "pipe2",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "poll",
    "ppoll",
    "prctl",
    "pread64",
    "preadv",
    "preadv2",
    "prlimit64",
    "process_mrelease",
    "pselect6",
    "ptrace",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "remap_file_pages",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "restart_syscall",
    "rmdir",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    "seccomp",
    "select",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setitimer",
    "setpgid",
    "setpriority",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "set_robust_list",
    "setsid",
    "setsockopt",
    "set_thread_area",
    "set_tid_address",
    "setuid",
    "setxattr",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    "shutdown",
    "sigaltstack",
    "signalfd",
    "signalfd4",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "sysinfo",
    "tee",
    "tgkill",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    "times",
    "tkill",
    "truncate",
    "umask",
    "uname",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vfork",
    "vmsplice",
    "wait4",
    "waitid",
    "write",
    "writev",
});

// What the launcher still calls after `policy` is installed.
constexpr auto kLauncherOnly =
    std::to_array<const char*>({"move_mount", "pivot_root", "umount2", "sethostname"});

// What an image builder and the runtime of its steps call besides. Each acts on the namespaces that
// the builder's root owns, and on nothing of the host's.
constexpr auto kBuilderOnly = std::to_array<const char*>(
    {"fsconfig", "fsmount", "fsopen", "fspick", "keyctl", "mount", "mount_setattr", "open_tree",
     "setns", "umount", "unshare", "clone", "setdomainname"});

// Calls newer than libseccomp's table, by their number, which is the same on all architectures.
constexpr auto kAllowedNumbers = std::to_array<int>({
    451,            // cachestat
    452,            // fchmodat2
    453,            // map_shadow_stack
    454, 455, 456,  // futex_wake, futex_wait, futex_requeue
    462,            // mseal
});
constexpr int kFirstUnknownNumber = 451;
// A program that probes for a call from the future must hear "not there", not "forbidden".
constexpr int kLastUnknownNumber = 511;

constexpr uint64_t kNamespaceFlags =
    0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000;
constexpr uint64_t kNewTime = 0x80;  // in clone(2) these bits are the exit signal
constexpr uint64_t kLowHalf = 0xFFFFFFFF;
// personality(2): Linux, its 32-bit uname and "no address randomisation" variants, and the query.
constexpr auto kPersonalities =
    std::to_array<uint64_t>({0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF});
constexpr int kNetlinkRoute = 0;

struct Release {
  void operator()(void* context) const { ::seccomp_release(context); }
};
using Context = std::unique_ptr<void, Release>;

// Collects rules; the first failure sticks.
class Rules {
 public:
  explicit Rules(uint32_t default_action) : context_(::seccomp_init(default_action)) {
    note(context_ ? 0 : -ENOMEM);
    if (context_) {
      note(::seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM)));
      // A binary tree over the numbers: the kernel tries the filter for every number at
      // installation, so its depth is what an installation costs.
      note(::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2));
    }
  }
  void add(uint32_t action, const char* name) { add(action, name, {}); }
  void add(uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> comparisons) {
    const int number = ::seccomp_syscall_resolve_name(name);
    if (number >= 0) {
      add_number(action, number, comparisons);
    }
  }
  void add_number(uint32_t action, int number, std::initializer_list<scmp_arg_cmp> comparisons) {
    if (error_ == 0) {
      note(::seccomp_rule_add_array(context_.get(), action, number,
                                    static_cast<unsigned>(comparisons.size()),
                                    comparisons.begin()));
    }
  }
  Result<std::vector<sock_filter>> finish() {
    if (error_ != 0) {
      return base::fail_errno(-error_, "make a seccomp filter");
    }
    const Fd file(::memfd_create("filter", MFD_CLOEXEC));
    if (!file) {
      return base::fail_errno(errno, "make a memory file");
    }
    if (const int error = ::seccomp_export_bpf(context_.get(), file.get()); error != 0) {
      return base::fail_errno(-error, "export a seccomp filter");
    }
    const off_t size = ::lseek(file.get(), 0, SEEK_END);
    std::vector<sock_filter> program(static_cast<size_t>(size) / sizeof(sock_filter));
    if (::pread(file.get(), program.data(), static_cast<size_t>(size), 0) != size) {
      return base::fail_errno(EIO, "read a seccomp filter");
    }
    return program;
  }

 private:
  void note(int error) { error_ = error_ == 0 ? error : error_; }
  Context context_;
  int error_ = 0;
};

scmp_arg_cmp equals(unsigned argument, uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, kLowHalf, value};
}
scmp_arg_cmp none_of(unsigned argument, uint64_t bits) {
  return {argument, SCMP_CMP_MASKED_EQ, bits, 0};
}

void add_namespaces(Rules& rules, Profile profile) {
  if (profile == Profile::builder) {
    for (const char* name : kBuilderOnly) {
      rules.add(SCMP_ACT_ALLOW, name);
    }
    return;
  }
  rules.add(SCMP_ACT_ALLOW, "clone", {none_of(0, kNamespaceFlags)});
  rules.add(SCMP_ACT_ALLOW, "unshare", {none_of(0, kNamespaceFlags | kNewTime)});
}

void add_conditional(Rules& rules) {
  // Its flags lie in memory, where no filter can look. The agent needs it (CLONE_INTO_CGROUP) and
  // it is harmless: the launcher sets the sandbox's limit of user namespaces to 0, and every other
  // kind of namespace takes a capability that is not there.
  rules.add(SCMP_ACT_ALLOW, "clone3");
  for (const uint64_t value : kPersonalities) {
    rules.add(SCMP_ACT_ALLOW, "personality", {equals(0, value)});
  }
  for (const int family : {AF_UNIX, AF_INET, AF_INET6}) {
    rules.add(SCMP_ACT_ALLOW, "socket", {equals(0, static_cast<uint64_t>(family))});
  }
  rules.add(SCMP_ACT_ALLOW, "socket", {equals(0, AF_NETLINK), equals(2, kNetlinkRoute)});
  rules.add(SCMP_ACT_ALLOW, "socketpair", {equals(0, AF_UNIX)});  // no other family has pairs
}

}  // namespace

Result<SeccompFilter> make_seccomp_filter(Profile profile) {
  Rules policy(SCMP_ACT_ERRNO(EPERM));
  for (const char* name : kAllowed) {
    policy.add(SCMP_ACT_ALLOW, name);
  }
  for (const char* name : kLauncherOnly) {
    policy.add(SCMP_ACT_ALLOW, name);
  }
  add_namespaces(policy, profile);
  add_conditional(policy);
  for (int number = kFirstUnknownNumber; number <= kLastUnknownNumber; ++number) {
    const bool allowed = std::ranges::find(kAllowedNumbers, number) != kAllowedNumbers.end();
    policy.add_number(allowed ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(ENOSYS), number, {});
  }

  Rules last(SCMP_ACT_ALLOW);
  if (profile == Profile::sandbox) {
    for (const char* name : kLauncherOnly) {
      last.add(SCMP_ACT_ERRNO(EPERM), name);
    }
  }
  last.add(SCMP_ACT_ERRNO(EPERM), "ioctl", {equals(1, TIOCSTI)});
  last.add(SCMP_ACT_ERRNO(EPERM), "ioctl", {equals(1, TIOCLINUX)});
  // A subvolume of one's own has a quota group of its own: a way past the storage limit for whoever
  // reaches a folder of the storage pool (the spool folder, through the agent's descriptors).
  for (const uint64_t request : {BTRFS_IOC_SUBVOL_CREATE, BTRFS_IOC_SUBVOL_CREATE_V2,
                                 BTRFS_IOC_SNAP_CREATE, BTRFS_IOC_SNAP_CREATE_V2}) {
    last.add(SCMP_ACT_ERRNO(ENOTTY), "ioctl", {equals(1, request)});
  }
  // What sudo and login expect of a kernel without auditing; "forbidden" makes them give up.
  last.add(SCMP_ACT_ERRNO(EPROTONOSUPPORT), "socket", {equals(0, AF_NETLINK), equals(2, 9)});

  SeccompFilter filter;
  ASSIGN_OR_RETURN(filter.policy, policy.finish());
  ASSIGN_OR_RETURN(filter.last, last.finish());
  return filter;
}

}  // namespace jail
