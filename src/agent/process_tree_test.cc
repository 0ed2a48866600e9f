#include "agent/process_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_testing.h"
#include "agent/spawn.h"
#include "base/sys.h"

namespace agent {
namespace {

// A folder of the cgroup v2 tree, wherever it is mounted; empty where there is none to write to.
std::string make_cgroup() {
  for (const char* root : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    const std::string path = base::cat(root, "/agent-test-", ::getpid());
    if (::access(base::cat(root, "/cgroup.procs").c_str(), W_OK) == 0 &&
        ::mkdir(path.c_str(), 0755) == 0) {
      return path;
    }
  }
  return "";
}

std::unique_ptr<SpawnedCommand> start(Spawner& spawner, ProcessTree& tree, const char* script) {
  SpawnRequest request{.argv = {"sh", "-c", script},
                       .environment = {"PATH=/usr/bin:/bin"},
                       .candidates = {"/bin/sh"},
                       .cwd = "/",
                       .cgroup = tree.cgroup()};
  if (!tree.marker().empty()) {
    request.environment.push_back(tree.marker());
  }
  auto command = spawner.spawn(std::move(request));
  EXPECT_TRUE(command.has_value()) << command.error().message;
  tree.set_leader((*command)->pid());
  return std::move(*command);
}

int wait_for(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

size_t groups_in(const std::string& folder) {
  size_t count = 0;
  for (const std::string& name : *base::sys::list_folder(folder)) {
    count += name.starts_with("command-") ? 1 : 0;
  }
  return count;
}

TEST(ProcessTree, a_cgroup_is_used_again_once_its_last_process_has_ended) {
  const std::string folder = make_cgroup();
  if (folder.empty()) {
    GTEST_SKIP() << "no cgroup v2 tree to write to";
  }
  {
    ProcessTrees trees(base::Fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    net::EventLoop loop;
    Spawner spawner(loop);
    auto first = trees.make();
    ASSERT_GE(first->cgroup(), 0);
    EXPECT_TRUE(first->marker().empty());
    const auto command = start(spawner, *first, "setsid sleep 600 & exit 7");
    EXPECT_EQ(WEXITSTATUS(wait_for(command->pid())), 7);
    EXPECT_FALSE(first->empty());  // the daemon
    const base::Fd kill(::openat(first->cgroup(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
    first.reset();
    auto second = trees.make();
    EXPECT_EQ(groups_in(folder), 2U) << "a group with a process in it was used again";
    second.reset();
    ASSERT_EQ(::write(kill.get(), "1", 1), 1);
    EXPECT_TRUE(eventually([&] {
      const auto events = base::sys::read_file(folder + "/command-1/cgroup.events", 1000);
      return events && events->find("populated 0") != std::string::npos;
    }));
    trees.sweep();
    const auto third = trees.make();
    const auto fourth = trees.make();
    EXPECT_EQ(groups_in(folder), 2U);
  }
  for (const std::string& name : *base::sys::list_folder(folder)) {
    if (name.starts_with("command-")) {
      ::rmdir(base::cat(folder, "/", name).c_str());
    }
  }
  EXPECT_EQ(::rmdir(folder.c_str()), 0);
}

TEST(ProcessTree, a_signal_reaches_daemons_with_and_without_cgroups) {
  const std::string folder = make_cgroup();
  for (const bool with_cgroup : {true, false}) {
    if (with_cgroup && folder.empty()) {
      continue;
    }
    base::Fd place;
    if (with_cgroup) {
      place = base::Fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    ProcessTrees trees(std::move(place));
    net::EventLoop loop;
    Spawner spawner(loop);
    auto tree = trees.make();
    EXPECT_EQ(tree->cgroup() >= 0, with_cgroup);
    const auto command = start(
        spawner, *tree, "(setsid sh -c 'trap \"\" TERM; sleep 600; sleep 600' &) ; wait; exit 0");
    wait_for(command->pid());
    EXPECT_FALSE(tree->empty());
    EXPECT_TRUE(eventually([&] {
      tree->signal(SIGTERM);
      tree->signal(SIGKILL);
      return tree->empty();
    }));
    tree.reset();
  }
  if (!folder.empty()) {
    EXPECT_TRUE(eventually([&] {
      ::rmdir((folder + "/command-1").c_str());
      return ::rmdir(folder.c_str()) == 0;
    }));
  }
}

}  // namespace
}  // namespace agent
