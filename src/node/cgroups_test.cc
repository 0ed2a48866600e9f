#include "node/cgroups.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/sys.h"

namespace node {
namespace {

using base::cat;

constexpr uint32_t kDelegate = 2'000'000;

bool enter(const CgroupEntry& entry) {
  for (const auto& tasks : entry.tasks) {
    if (::write(tasks.get(), "0", 1) != 1) {
      return false;
    }
  }
  if (!entry.v2_folder) {
    return true;
  }
  const base::Fd procs(::openat(entry.v2_folder.get(), "cgroup.procs", O_WRONLY));
  return ::write(procs.get(), "0", 1) == 1;
}

// A child that runs `body` and exits with its result; it has entered all hierarchies when this
// returns.
pid_t start_inside(const CgroupEntry& entry, int (*body)()) {
  auto [entered, entering] = base::sys::make_pipe().value();
  const auto pid = ::fork();
  if (pid == 0) {
    if (!enter(entry)) {
      ::_exit(99);
    }
    entering.reset();
    ::_exit(body());
  }
  entering.reset();
  char nothing = 0;
  (void)::read(entered.get(), &nothing, 1);  // the end of the pipe
  return pid;
}

// The exit code, or 128 + signal.
int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int sleep_for_ever() {
  for (;;) {
    ::pause();
  }
}

// How many children of it one process may have at once.
int count_forks() {
  int count = 0;
  while (count < 100) {
    const auto pid = ::fork();
    if (pid < 0) {
      break;
    }
    if (pid == 0) {
      sleep_for_ever();
    }
    ++count;
  }
  return count;
}

int use_a_lot_of_memory() {
  constexpr size_t kSize = 64 << 20;
  auto* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return 97;
  }
  ::memset(memory, 1, kSize);
  return 0;
}

class RealCgroups : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    prefix_ = cat("tst", ::getpid());
    auto cgroups = Cgroups::open(prefix_);
    ASSERT_TRUE(cgroups.has_value()) << cgroups.error().message;
    cgroups_ = std::move(*cgroups);
  }
  void TearDown() override {
    if (cgroups_) {
      for (const auto& name : cgroups_->list().value()) {
        EXPECT_TRUE(cgroups_->kill(name).has_value());
        // What was killed is gone a moment later.
        while (!cgroups_->empty(name).value()) {
          ::sched_yield();
        }
        EXPECT_TRUE(cgroups_->remove(name).has_value()) << name;
      }
      const auto closed = cgroups_->close();
      EXPECT_TRUE(closed.has_value()) << closed.error().message;
    }
  }

  std::string prefix_;
  std::unique_ptr<Cgroups> cgroups_;
};

TEST_F(RealCgroups, a_made_one_is_listed_until_removed) {
  ASSERT_TRUE(cgroups_->make("a", kDelegate).has_value());
  EXPECT_EQ(cgroups_->list().value(), std::vector<std::string>{"a"});
  EXPECT_TRUE(cgroups_->empty("a").value());
  EXPECT_TRUE(cgroups_->remove("a").has_value());
  EXPECT_TRUE(cgroups_->remove("a").has_value());
  EXPECT_TRUE(cgroups_->list().value().empty());
}

TEST_F(RealCgroups, making_an_existing_one_fails_and_leaves_it) {
  ASSERT_TRUE(cgroups_->make("a", kDelegate).has_value());
  EXPECT_FALSE(cgroups_->make("a", kDelegate).has_value());
  EXPECT_EQ(cgroups_->list().value(), std::vector<std::string>{"a"});
}

TEST_F(RealCgroups, the_process_limit_holds) {
  const auto entry = cgroups_->make("a", kDelegate).value();
  const auto limited = cgroups_->limit("a", {.millicpus = 500, .memory_mb = 64, .pids = 20});
  ASSERT_TRUE(limited.has_value()) << limited.error().message;
  EXPECT_EQ(wait_for(start_inside(entry, count_forks)), 19);
}

TEST_F(RealCgroups, memory_beyond_the_limit_is_an_oom_kill_that_is_counted) {
  const auto entry = cgroups_->make("a", kDelegate).value();
  ASSERT_TRUE(cgroups_->limit("a", {.millicpus = 1000, .memory_mb = 16, .pids = 20}).has_value());
  EXPECT_EQ(cgroups_->oom_kills("a").value(), 0);
  EXPECT_EQ(wait_for(start_inside(entry, use_a_lot_of_memory)), 128 + SIGKILL);
  EXPECT_EQ(cgroups_->oom_kills("a").value(), 1);
  char text[512] = {};
  ASSERT_GT(::pread(entry.oom_counter.get(), text, sizeof text - 1, 0), 0);
  EXPECT_EQ(parse_oom_kills(text), 1);
}

TEST_F(RealCgroups, limits_can_be_raised_and_lowered_later) {
  (void)cgroups_->make("a", kDelegate).value();
  for (const int64_t megabytes : {64, 256, 32}) {
    const auto limited =
        cgroups_->limit("a", {.millicpus = 250, .memory_mb = megabytes, .pids = 9});
    EXPECT_TRUE(limited.has_value()) << limited.error().message;
  }
}

TEST_F(RealCgroups, a_hundredth_of_a_cpu_is_a_legal_limit) {
  (void)cgroups_->make("a", kDelegate).value();
  EXPECT_TRUE(cgroups_->limit("a", {.millicpus = 10, .memory_mb = 16, .pids = 9}).has_value());
  EXPECT_TRUE(cgroups_->limit("a", {.millicpus = 1, .memory_mb = 16, .pids = 9}).has_value());
}

TEST_F(RealCgroups, kill_ends_everything_also_in_groups_made_inside) {
  const auto entry = cgroups_->make("a", kDelegate).value();
  const auto first = start_inside(entry, sleep_for_ever);
  if (entry.v2_folder) {
    ASSERT_EQ(::mkdirat(entry.v2_folder.get(), "command-1", 0755), 0);
    const base::Fd procs(::openat(entry.v2_folder.get(), "command-1/cgroup.procs", O_WRONLY));
    const auto pid = cat(first);
    ASSERT_GT(::write(procs.get(), pid.data(), pid.size()), 0);
  }
  const auto second = start_inside(entry, sleep_for_ever);
  EXPECT_TRUE(cgroups_->kill("a").has_value());
  EXPECT_EQ(wait_for(first), 128 + SIGKILL);
  EXPECT_EQ(wait_for(second), 128 + SIGKILL);
  EXPECT_TRUE(cgroups_->empty("a").value());
  const auto removed = cgroups_->remove("a");
  EXPECT_TRUE(removed.has_value()) << removed.error().message;
}

TEST_F(RealCgroups, one_with_a_process_in_it_is_not_removed) {
  const auto entry = cgroups_->make("a", kDelegate).value();
  const auto pid = start_inside(entry, sleep_for_ever);
  EXPECT_FALSE(cgroups_->empty("a").value());
  const auto removed = cgroups_->remove("a");
  EXPECT_FALSE(removed.has_value());
  EXPECT_TRUE(cgroups_->kill("a").has_value());
  EXPECT_EQ(wait_for(pid), 128 + SIGKILL);
}

TEST_F(RealCgroups, the_delegate_may_make_children_but_not_change_limits) {
  const auto entry = cgroups_->make("a", kDelegate).value();
  if (!entry.v2_folder) {
    GTEST_SKIP() << "no v2 tree";
  }
  const auto pid = ::fork();
  if (pid == 0) {
    if (::setresgid(kDelegate, kDelegate, kDelegate) != 0 ||
        ::setresuid(kDelegate, kDelegate, kDelegate) != 0) {
      ::_exit(90);
    }
    if (::mkdirat(entry.v2_folder.get(), "command", 0755) != 0 ||
        ::unlinkat(entry.v2_folder.get(), "command", AT_REMOVEDIR) != 0) {
      ::_exit(91);
    }
    ::_exit(::openat(entry.v2_folder.get(), "cgroup.max.descendants", O_WRONLY) < 0 ? 0 : 92);
  }
  EXPECT_EQ(wait_for(pid), 0);
}

TEST_F(RealCgroups, the_cost_of_each_call_is_reported) {
  constexpr int kRounds = 50;
  using std::chrono::steady_clock;
  const auto each = [](steady_clock::time_point since) {
    const auto took =
        std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - since);
    return static_cast<long long>(took.count()) / kRounds;
  };
  auto since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(cgroups_->make(cat("a", i), kDelegate).has_value());
  }
  std::printf("cgroups (%s): make %lld", std::string(to_string(cgroups_->layout())).c_str(),
              each(since));
  since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(
        cgroups_->limit(cat("a", i), {.millicpus = 500, .memory_mb = 64, .pids = 64}).has_value());
  }
  std::printf(", limit %lld", each(since));
  since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(cgroups_->kill(cat("a", i)).has_value());
  }
  std::printf(", kill %lld", each(since));
  since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(cgroups_->remove(cat("a", i)).has_value());
  }
  std::printf(", remove %lld us each\n", each(since));
}

constexpr auto kHybrid =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(CgroupMounts, of_a_hybrid_host_are_found_by_controller) {
  const auto mounts = parse_cgroup_mounts(kHybrid);
  EXPECT_EQ(mounts.v2, "/sys/fs/cgroup/unified");
  EXPECT_EQ(mounts.v1_cpu, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(mounts.v1_memory, "/sys/fs/cgroup/memory");
  EXPECT_EQ(mounts.v1_pids, "/sys/fs/cgroup/pids");
}

TEST(CgroupMounts, of_a_pure_v2_host_are_one) {
  const auto mounts = parse_cgroup_mounts(
      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  EXPECT_EQ(mounts.v2, "/sys/fs/cgroup");
  EXPECT_TRUE(mounts.v1_cpu.empty() && mounts.v1_memory.empty() && mounts.v1_pids.empty());
}

TEST(CgroupMounts, cut_lines_are_passed_over) {
  const auto mounts = parse_cgroup_mounts("30 23 0:26 / /x rw -\n30 23\n\n- cgroup2\n");
  EXPECT_TRUE(mounts.v2.empty());
}

TEST(OomKills, are_read_from_both_versions_files) {
  EXPECT_EQ(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
  EXPECT_EQ(parse_oom_kills("low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n"), 2);
  EXPECT_EQ(parse_oom_kills("oom_kill x\n"), 0);
  EXPECT_EQ(parse_oom_kills(""), 0);
}

TEST(CgroupFiles, cpu_time_is_found) {
  EXPECT_EQ(parse_cpu_usage("usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n"), 1234);
  EXPECT_EQ(parse_cpu_usage("user_usec 1000\n"), kUsageUnknown);
  EXPECT_EQ(parse_cpu_usage("usage_usec x\n"), kUsageUnknown);
}

}  // namespace
}  // namespace node
