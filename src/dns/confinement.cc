#include "dns/confinement.h"

#include <seccomp.h>

#include <array>

#include "jail/confine_self.h"

namespace dns {

using base::Result;

namespace {

// A thousand queries with their buffers take a few megabytes.
constexpr rlim_t kMemoryBytesMax = rlim_t{128} << 20;
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

}  // namespace

Result<void> confine() {
  RETURN_IF_ERROR(jail::enter_empty_root());
  RETURN_IF_ERROR(
      jail::give_up_privileges({.memory_bytes = kMemoryBytesMax, .descriptors = kDescriptorsMax}));
  return jail::allow_only(kAllowed);
}

}  // namespace dns
