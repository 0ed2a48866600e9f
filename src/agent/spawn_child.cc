#include "agent/spawn_child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include <cerrno>

#include "agent/raw_call.h"

namespace agent {
namespace {

constexpr mode_t kUmask = 022;

struct KernelSigaction {
  unsigned long handler;
  unsigned long flags;
  unsigned long restorer;
  unsigned long mask;
};
constexpr long kKernelSigsetBytes = 8;
constexpr long kFirstOtherFd = 3;

// `from` as descriptor `to`, kept over execve.
long place_descriptor(int from, int to) noexcept {
  return from == to ? raw_call(SYS_fcntl, to, F_SETFD, 0) : raw_call(SYS_dup3, from, to, 0);
}

long attach_descriptors(const ChildPlan& plan) noexcept {
  long result = place_descriptor(plan.input, 0);
  result = result < 0 ? result : place_descriptor(plan.output, 1);
  result = result < 0 ? result : place_descriptor(plan.error, 2);
  // All of the agent's are so already; this holds for what nobody thought of.
  raw_call(SYS_close_range, kFirstOtherFd, ~0U, CLOSE_RANGE_CLOEXEC);
  return result < 0 || plan.script < 0 ? result : place_descriptor(plan.script, kScriptFd);
}

long become(const ChildPlan& plan) noexcept {
  long result =
      raw_call(SYS_setgroups, static_cast<long>(plan.group_count), raw_address(plan.groups));
  result = result < 0 ? result : raw_call(SYS_setresgid, plan.gid, plan.gid, plan.gid);
  return result < 0 ? result : raw_call(SYS_setresuid, plan.uid, plan.uid, plan.uid);
}

// As the command's user, and never through a magic link: /proc/self/fd/N is the agent's.
long enter_folder(const ChildPlan& plan) noexcept {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const long folder =
      raw_call(SYS_openat2, AT_FDCWD, raw_address(plan.cwd), raw_address(&how), sizeof how);
  return folder < 0 ? folder : raw_call(SYS_fchdir, folder);
}

// Returns only the error: of the last candidate, or EACCES if one could not be run.
long execute(const ChildPlan& plan) noexcept {
  if (plan.program >= 0) {
    return raw_call(SYS_execveat, plan.program, raw_address(""), raw_address(plan.argv),
                    raw_address(plan.environment), AT_EMPTY_PATH);
  }
  long result = -ENOENT;
  bool denied = false;
  for (const char* const* path = plan.candidates; *path != nullptr; ++path) {
    result = raw_call(SYS_execve, raw_address(*path), raw_address(plan.argv),
                      raw_address(plan.environment));
    denied = denied || result == -EACCES;
    if (result != -ENOENT && result != -ENOTDIR && result != -EACCES) {
      return result;
    }
  }
  return denied ? -EACCES : result;
}

}  // namespace

void run_child(const void* argument) noexcept {
  const ChildPlan& plan = *static_cast<const ChildPlan*>(argument);
  const auto give_up = [&plan](SpawnStep step, long result) {
    plan.failure->step = step;
    plan.failure->errno_value = static_cast<int>(-result);
    constexpr long kNotStarted = 127;
    raw_call(SYS_exit_group, kNotStarted);
  };
  const auto check = [&give_up](SpawnStep step, long result) {
    if (result < 0) {
      give_up(step, result);
    }
  };
  check(SpawnStep::session, raw_call(SYS_setsid));
  check(SpawnStep::descriptors, attach_descriptors(plan));
  if (plan.terminal) {
    check(SpawnStep::terminal, raw_call(SYS_ioctl, 0, TIOCSCTTY, 0));
  }
  raw_call(SYS_umask, kUmask);
  if (!plan.is_agents_identity) {
    check(SpawnStep::identity, become(plan));
  }
  if (plan.no_new_privileges) {
    check(SpawnStep::privileges, raw_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1));
  }
  check(SpawnStep::folder, enter_folder(plan));
  // The agent ignores only SIGPIPE and blocks only SIGCHLD (prepared in main).
  const KernelSigaction standard{};
  raw_call(SYS_rt_sigaction, SIGPIPE, raw_address(&standard), 0, kKernelSigsetBytes);
  const uint64_t nothing = 0;
  raw_call(SYS_rt_sigprocmask, SIG_SETMASK, raw_address(&nothing), 0, kKernelSigsetBytes);
  give_up(SpawnStep::execute, execute(plan));
}

}  // namespace agent
