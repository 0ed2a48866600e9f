#include "ssh/confinement.h"

#include <seccomp.h>
#include <unistd.h>

#include <array>

#include "jail/confine_self.h"

namespace ssh {

using base::Result;

namespace {

constexpr std::string_view kShownAs = "gateway";
// Windows and packets of all channels of one client, twice over.
constexpr rlim_t kMemoryBytesMax = rlim_t{512} << 20;
// A descriptor and a pipe for each connection.
constexpr rlim_t kDescriptorsMax = 8192;

constexpr auto kAllowed = std::to_array<int>({
    SCMP_SYS(accept4),
    SCMP_SYS(brk),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clone),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(connect),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(eventfd2),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(fcntl),
    SCMP_SYS(futex),
    SCMP_SYS(getpeername),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt),
    SCMP_SYS(gettid),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(ioctl),
    SCMP_SYS(kill),
    SCMP_SYS(madvise),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(munmap),
    SCMP_SYS(pipe2),
    SCMP_SYS(poll),
    SCMP_SYS(prctl),
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rseq),
    SCMP_SYS(sched_yield),
    SCMP_SYS(seccomp),
    SCMP_SYS(sendmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(setsockopt),
    SCMP_SYS(shutdown),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(socket),
    SCMP_SYS(wait4),
    SCMP_SYS(write),
    SCMP_SYS(writev),
});

// Of the former, what only the front itself needs.
constexpr auto kFrontsOnly = std::to_array<int>({
    SCMP_SYS(accept4),
    SCMP_SYS(clone),
    SCMP_SYS(kill),
    SCMP_SYS(prctl),
    SCMP_SYS(seccomp),
    SCMP_SYS(wait4),
});

}  // namespace

Result<std::string> confine_front(const std::string& gateway_socket) {
  if (::geteuid() == 0) {
    return base::fail(base::ErrorCode::internal, "it must not run as root: give it a user");
  }
  const size_t slash = gateway_socket.rfind('/');
  RETURN_IF_ERROR(jail::enter_own_namespaces());
  RETURN_IF_ERROR(jail::enter_empty_root(gateway_socket.substr(0, slash), std::string(kShownAs)));
  RETURN_IF_ERROR(
      jail::give_up_privileges({.memory_bytes = kMemoryBytesMax, .descriptors = kDescriptorsMax}));
  RETURN_IF_ERROR(jail::allow_only(kAllowed));
  return base::cat("/", kShownAs, gateway_socket.substr(slash));
}

Result<void> confine_client() { return jail::forbid(kFrontsOnly); }

}  // namespace ssh
