#include "agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "agent/raw_call.h"

namespace agent {
namespace {

// A child's frames are small: it calls nothing but the kernel.
constexpr size_t kStackBytes = size_t{16} * 1024;
constexpr uintptr_t kStackAlignment = 16;
// More are made when more children are on their way at once; what is kept is touched memory.
constexpr size_t kStacksKept = 4;
// Half of the maximum: a command is chosen long before the agent, whatever both use.
constexpr std::string_view kCommandOomScore = "500";
constexpr std::string_view kAgentOomScore = "0";
// The score of the agent is one with that of children on their way (they share its memory), so it
// is put back when none is. Once in a while only: the kernel looks at every process for it.
constexpr base::Milliseconds kSettleTime{20};
constexpr useconds_t kLastLookMicroseconds = 1000;

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    out.push_back(text.c_str());
  }
  out.push_back(nullptr);
  return out;
}

Identity own_identity() {
  Identity own{.uid = ::geteuid(), .gid = ::getegid()};
  const int count = ::getgroups(0, nullptr);
  own.groups.resize(static_cast<size_t>(std::max(count, 0)));
  if (count > 0 && ::getgroups(count, own.groups.data()) != count) {
    own.groups.clear();
  }
  std::ranges::sort(own.groups);
  return own;
}

bool is_same(const Identity& own, const Identity& wanted) {
  std::vector<uint32_t> groups = wanted.groups;
  std::ranges::sort(groups);
  return own.uid == wanted.uid && own.gid == wanted.gid && own.groups == groups;
}

}  // namespace

// What one child reads and writes; it must stay where it is until the child has left the memory.
struct Launch {
  explicit Launch(SpawnRequest given)
      : request(std::move(given)),
        argv(pointers(request.argv)),
        environment(pointers(request.environment)),
        candidates(pointers(request.candidates)),
        plan{.argv = argv.data(),
             .environment = environment.data(),
             .candidates = candidates.data(),
             .program = request.program,
             .cwd = request.cwd.c_str(),
             .groups = request.identity.groups.data(),
             .group_count = request.identity.groups.size(),
             .uid = request.identity.uid,
             .gid = request.identity.gid,
             .input = request.input,
             .output = request.output,
             .error = request.error,
             .script = request.script,
             .terminal = request.terminal,
             .no_new_privileges = request.no_new_privileges,
             .failure = &failure} {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // The kernel clears the word when the child leaves the memory: by execve or by its end.
  [[nodiscard]] bool is_over() { return std::atomic_ref(in_memory).load() == 0; }

  const SpawnRequest request;
  const std::vector<const char*> argv;
  const std::vector<const char*> environment;
  const std::vector<const char*> candidates;
  SpawnFailure failure;
  ChildPlan plan;
  Stack stack;
  alignas(std::atomic_ref<int>::required_alignment) int in_memory = 1;
};

namespace {

pid_t start_child(Launch& launch) {
  constexpr uint64_t kFlags = CLONE_VM | CLONE_CHILD_CLEARTID;
  const auto begin = reinterpret_cast<uintptr_t>(launch.stack.get());  // NOLINT: an address
  const uintptr_t top = (begin + kStackBytes) & ~(kStackAlignment - 1);
  clone_args arguments{};
  arguments.flags = kFlags;
  arguments.child_tid = static_cast<uint64_t>(raw_address(&launch.in_memory));
  arguments.exit_signal = SIGCHLD;
  arguments.stack = begin;
  arguments.stack_size = top - begin;
  const int cgroup = launch.request.cgroup;
  if (cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(cgroup);
  }
  long pid = raw_clone(SYS_clone3, raw_address(&arguments), sizeof arguments, 0, 0, run_child,
                       &launch.plan);
  if (pid == -ENOSYS && cgroup < 0) {
    // Some engines' filters hide clone3, whose flags they cannot read.
    pid =
        raw_clone(SYS_clone, static_cast<long>(kFlags | uint64_t{SIGCHLD}), static_cast<long>(top),
                  0, raw_address(&launch.in_memory), run_child, &launch.plan);
  }
  return static_cast<pid_t>(pid);
}

}  // namespace

SpawnFailure SpawnedCommand::failure() const { return launch_->failure; }

Spawner::Spawner(net::EventLoop& loop)
    : loop_(loop),
      oom_score_(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)),
      own_(own_identity()) {}

Spawner::~Spawner() {
  if (timer_ != 0) {
    loop_.remove_timer(timer_);
  }
  for (collect(); !launching_.empty(); collect()) {
    ::usleep(kLastLookMicroseconds);
  }
  if (is_score_raised_) {
    set_oom_score(kAgentOomScore);
  }
}

void Spawner::set_oom_score(std::string_view value) {
  if (oom_score_) {
    [[maybe_unused]] const ssize_t count =
        ::pwrite(oom_score_.get(), value.data(), value.size(), 0);
  }
}

void Spawner::keep(Stack stack) {
  if (stacks_.size() < kStacksKept) {
    stacks_.push_back(std::move(stack));
  }
}

void Spawner::collect() {
  std::erase_if(launching_, [this](const std::shared_ptr<Launch>& launch) {
    if (!launch->is_over()) {
      return false;
    }
    keep(std::move(launch->stack));
    return true;
  });
}

void Spawner::settle() {
  collect();
  timer_ = 0;
  if (launching_.empty()) {
    set_oom_score(kAgentOomScore);
    is_score_raised_ = false;
  } else {
    timer_ = loop_.add_timer(std::chrono::steady_clock::now() + kSettleTime, [this] { settle(); });
  }
}

Result<std::unique_ptr<SpawnedCommand>> Spawner::spawn(SpawnRequest request) {
  collect();
  auto launch = std::make_shared<Launch>(std::move(request));
  launch->plan.is_agents_identity = is_same(own_, launch->request.identity);
  if (stacks_.empty()) {
    launch->stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  } else {
    launch->stack = std::move(stacks_.back());
    stacks_.pop_back();
  }
  if (!is_score_raised_) {
    is_score_raised_ = true;
    set_oom_score(kCommandOomScore);  // inherited by the child
  }
  if (timer_ == 0) {
    timer_ = loop_.add_timer(std::chrono::steady_clock::now() + kSettleTime, [this] { settle(); });
  }
  const pid_t pid = start_child(*launch);
  if (pid < 0) {
    keep(std::move(launch->stack));
    return base::fail_errno(-pid, "start a process");
  }
  launching_.push_back(launch);
  return std::make_unique<SpawnedCommand>(std::move(launch), pid);
}

}  // namespace agent
