#include "dns/confinement.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace dns {

using base::fail_errno;
using base::Result;

namespace {

// A folder that exists everywhere: the empty root is mounted on it.
constexpr const char* kRoot = "/tmp";
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr rlim_t kMemoryBytesMax = RLIM_INFINITY;  // its shadow alone takes terabytes of addresses
#else
// A thousand queries with their buffers take a few megabytes.
constexpr rlim_t kMemoryBytesMax = rlim_t{128} << 20;
#endif
// Queries and connections under way, each with a socket or two.
constexpr rlim_t kDescriptorsMax = 4096;

constexpr auto kAllowed = std::to_array<int>({
    SCMP_SYS(accept4),       SCMP_SYS(brk),
    SCMP_SYS(clock_gettime), SCMP_SYS(close),
    SCMP_SYS(epoll_ctl),     SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_wait),    SCMP_SYS(exit),
    SCMP_SYS(exit_group),    SCMP_SYS(fcntl),
    SCMP_SYS(futex),         SCMP_SYS(getpeername),
    SCMP_SYS(getpid),        SCMP_SYS(getrandom),
    SCMP_SYS(getsockname),   SCMP_SYS(getsockopt),
    SCMP_SYS(gettid),        SCMP_SYS(madvise),
    SCMP_SYS(mmap),          SCMP_SYS(mprotect),
    SCMP_SYS(mremap),        SCMP_SYS(munmap),
    SCMP_SYS(poll),          SCMP_SYS(read),
    SCMP_SYS(readv),         SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),       SCMP_SYS(restart_syscall),
    SCMP_SYS(rt_sigaction),  SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),  SCMP_SYS(sched_yield),
    SCMP_SYS(sendmsg),       SCMP_SYS(sendto),
    SCMP_SYS(setsockopt),    SCMP_SYS(shutdown),
    SCMP_SYS(sigaltstack),   SCMP_SYS(tgkill),
    SCMP_SYS(write),         SCMP_SYS(writev),
});

Result<void> enter_empty_root() {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return fail_errno(errno, "make mounts private");
  }
  if (::mount("root", kRoot, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "size=4k") !=
      0) {
    return fail_errno(errno, "mount the empty root");
  }
  if (::chdir(kRoot) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
      ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) {
    return fail_errno(errno, "enter the empty root");
  }
  return {};
}

Result<void> give_up_privileges() {
  __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  const rlimit no_core{};
  const rlimit memory{kMemoryBytesMax, kMemoryBytesMax};
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_max = std::min(descriptors.rlim_max, kDescriptorsMax);
  descriptors.rlim_cur = descriptors.rlim_max;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::setrlimit(RLIMIT_CORE, &no_core) != 0 ||
      ::setrlimit(RLIMIT_DATA, &memory) != 0 || ::setrlimit(RLIMIT_NOFILE, &descriptors) != 0 ||
      ::syscall(SYS_capset, &head, none.data()) != 0) {
    return fail_errno(errno, "give up privileges");
  }
  return {};
}

Result<void> install_filter() {
  scmp_filter_ctx context = ::seccomp_init(SCMP_ACT_ERRNO(EPERM));
  int failed = context == nullptr ? -ENOMEM : 0;
  for (const int call : kAllowed) {
    failed = failed != 0 ? failed : ::seccomp_rule_add(context, SCMP_ACT_ALLOW, call, 0);
  }
  failed = failed != 0 ? failed : ::seccomp_load(context);
  ::seccomp_release(context);
  if (failed != 0) {
    return fail_errno(-failed, "install the system call filter");
  }
  return {};
}

}  // namespace

Result<void> confine() {
  RETURN_IF_ERROR(enter_empty_root());
  RETURN_IF_ERROR(give_up_privileges());
  return install_filter();
}

}  // namespace dns
