#include "agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "agent/raw_call.h"

namespace agent {

// Mapped shared, so that the record is seen whether or not the child shares the agent's memory.
struct SpawnMemory {
  SpawnFailure failure;
};

namespace {

constexpr mode_t kUmask = 022;
// Half of the maximum: a command is chosen long before the agent, whatever both use.
constexpr std::string_view kCommandOomScore = "500";
constexpr std::string_view kAgentOomScore = "0";

// All the child needs, in pointers and numbers.
struct ChildPlan {
  const char* const* argv;
  const char* const* environment;
  const char* const* candidates;
  const char* cwd;
  const uint32_t* groups;
  size_t group_count;
  uint32_t uid;
  uint32_t gid;
  int input;
  int output;
  int error;
  int script;
  bool no_new_privileges;
  SpawnFailure* failure;
};

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

void run_child(const ChildPlan& plan) noexcept {
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
  raw_call(SYS_umask, kUmask);
  check(SpawnStep::identity, become(plan));
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

// A child with memory of its own, as fork makes it: what kills it cannot touch the agent. The
// record is in shared memory.
pid_t clone_child(const ChildPlan& plan, int cgroup) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  if (cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(cgroup);
  }
  long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0 && errno == ENOSYS && cgroup < 0) {
    // Some engines' filters hide clone3, whose flags they cannot read.
    pid = ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  }
  if (pid == 0) {
    run_child(plan);
    std::abort();
  }
  return static_cast<pid_t>(pid);
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    out.push_back(text.c_str());
  }
  out.push_back(nullptr);
  return out;
}

}  // namespace

SpawnedCommand::~SpawnedCommand() {
  if (memory_ != nullptr) {
    ::munmap(memory_, sizeof(SpawnMemory));
  }
}

SpawnFailure SpawnedCommand::failure() const { return memory_->failure; }

Spawner::Spawner() : oom_score_(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)) {}

void Spawner::set_oom_score(std::string_view value) {
  if (oom_score_) {
    [[maybe_unused]] const ssize_t count =
        ::pwrite(oom_score_.get(), value.data(), value.size(), 0);
  }
}

Result<std::unique_ptr<SpawnedCommand>> Spawner::spawn(SpawnRequest request) {
  std::unique_ptr<SpawnedCommand> command(new SpawnedCommand);
  void* memory = ::mmap(nullptr, sizeof(SpawnMemory), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return base::fail_errno(errno, "mmap for a command");
  }
  command->memory_ = new (memory) SpawnMemory;
  command->request_ = std::move(request);
  const SpawnRequest& held = command->request_;
  command->argv_ = pointers(held.argv);
  command->environment_ = pointers(held.environment);
  command->candidates_ = pointers(held.candidates);
  const ChildPlan plan{.argv = command->argv_.data(),
                       .environment = command->environment_.data(),
                       .candidates = command->candidates_.data(),
                       .cwd = held.cwd.c_str(),
                       .groups = held.identity.groups.data(),
                       .group_count = held.identity.groups.size(),
                       .uid = held.identity.uid,
                       .gid = held.identity.gid,
                       .input = held.input,
                       .output = held.output,
                       .error = held.error,
                       .script = held.script,
                       .no_new_privileges = held.no_new_privileges,
                       .failure = &command->memory_->failure};
  // Inherited by the child.
  set_oom_score(kCommandOomScore);
  command->pid_ = clone_child(plan, held.cgroup);
  const int clone_errno = errno;
  set_oom_score(kAgentOomScore);
  if (command->pid_ < 0) {
    return base::fail_errno(clone_errno, "start a process");
  }
  return command;
}

}  // namespace agent
