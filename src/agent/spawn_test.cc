#include "agent/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_testing.h"
#include "base/sys.h"

namespace agent {
namespace {

SpawnRequest shell(std::string script) {
  return {.argv = {"sh", "-c", std::move(script)},
          .environment = {"PATH=/usr/bin:/bin"},
          .candidates = {"/nowhere/sh", "/bin/sh"},
          .cwd = "/"};
}

int exit_code(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run(Spawner& spawner, SpawnRequest request) {
  const auto command = spawner.spawn(std::move(request));
  EXPECT_TRUE(command.has_value()) << command.error().message;
  return command ? exit_code((*command)->pid()) : -1;
}

std::string own_oom_score() { return *base::sys::read_file("/proc/self/oom_score_adj", 64); }

TEST(Spawner, starts_commands_beside_each_other) {
  constexpr int kCommands = 60;
  net::EventLoop loop;
  Spawner spawner(loop);
  std::vector<std::unique_ptr<SpawnedCommand>> commands;
  for (int i = 0; i < kCommands; ++i) {
    auto command = spawner.spawn(shell(base::cat("exit ", i)));
    ASSERT_TRUE(command.has_value()) << command.error().message;
    commands.push_back(std::move(*command));
  }
  for (int i = 0; i < kCommands; ++i) {
    EXPECT_EQ(exit_code(commands[static_cast<size_t>(i)]->pid()), i);
    EXPECT_EQ(commands[static_cast<size_t>(i)]->failure().step, SpawnStep::none);
  }
}

TEST(Spawner, tells_the_step_that_failed) {
  net::EventLoop loop;
  Spawner spawner(loop);
  SpawnRequest missing = shell("exit 0");
  missing.candidates = {"/nowhere/sh", "/nowhere/else/sh"};
  auto command = spawner.spawn(std::move(missing));
  ASSERT_TRUE(command.has_value());
  EXPECT_EQ(exit_code((*command)->pid()), 127);
  EXPECT_EQ((*command)->failure().step, SpawnStep::execute);
  EXPECT_EQ((*command)->failure().errno_value, ENOENT);

  SpawnRequest nowhere = shell("exit 0");
  nowhere.cwd = "/nowhere";
  command = spawner.spawn(std::move(nowhere));
  ASSERT_TRUE(command.has_value());
  EXPECT_EQ(exit_code((*command)->pid()), 127);
  EXPECT_EQ((*command)->failure().step, SpawnStep::folder);
}

TEST(Spawner, a_command_that_is_forgotten_before_it_runs_does_so_all_the_same) {
  net::EventLoop loop;
  Spawner spawner(loop);
  std::vector<pid_t> pids;
  for (int i = 0; i < 20; ++i) {
    const auto command = spawner.spawn(shell(base::cat("exit ", i)));
    ASSERT_TRUE(command.has_value());
    pids.push_back((*command)->pid());
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(exit_code(pids[static_cast<size_t>(i)]), i);
  }
}

TEST(Spawner, a_command_is_the_likelier_victim_and_the_agent_is_not_for_long) {
  net::EventLoop loop;
  Spawner spawner(loop);
  const std::string before = own_oom_score();
  EXPECT_EQ(run(spawner, shell("test \"$(cat /proc/self/oom_score_adj)\" = 500")), 0);
  EXPECT_TRUE(eventually([&] {
    loop.run_once(base::Milliseconds(10));
    return own_oom_score() == before;
  }));
  EXPECT_EQ(run(spawner, shell("test \"$(cat /proc/self/oom_score_adj)\" = 500")), 0);
}

TEST(Spawner, the_score_of_a_running_command_stays_when_the_agents_is_put_back) {
  net::EventLoop loop;
  Spawner spawner(loop);
  const std::string before = own_oom_score();
  const auto command = spawner.spawn(shell("exec sleep 600"));
  ASSERT_TRUE(command.has_value());
  EXPECT_TRUE(eventually([&] {
    loop.run_once(base::Milliseconds(10));
    return own_oom_score() == before;
  }));
  EXPECT_EQ(*base::sys::read_file(base::cat("/proc/", (*command)->pid(), "/oom_score_adj"), 64),
            "500\n");
  ::kill((*command)->pid(), SIGKILL);
  EXPECT_EQ(exit_code((*command)->pid()), -1);
}

TEST(Spawner, a_command_is_who_it_was_asked_to_be) {
  net::EventLoop loop;
  Spawner spawner(loop);
  SpawnRequest other = shell("test \"$(id -u):$(id -g):$(id -G)\" = \"1234:1235:1235 77\"");
  other.identity = {.uid = 1234, .gid = 1235, .groups = {77}};
  EXPECT_EQ(run(spawner, std::move(other)), 0);
  SpawnRequest root = shell("test \"$(id -u):$(id -g):$(id -G)\" = \"0:0:0\"");
  EXPECT_EQ(run(spawner, std::move(root)), 0);
}

TEST(Spawner, a_terminal_becomes_the_commands_own) {
  net::EventLoop loop;
  Spawner spawner(loop);
  int first = -1;
  int second = -1;
  ASSERT_EQ(::openpty(&first, &second, nullptr, nullptr, nullptr), 0);
  const base::Fd master(first);
  const base::Fd terminal(second);
  SpawnRequest request = shell("test -t 0 && : > /dev/tty");
  request.input = terminal.get();
  request.terminal = true;
  EXPECT_EQ(run(spawner, std::move(request)), 0);
  SpawnRequest without = shell(": > /dev/tty");
  EXPECT_NE(run(spawner, std::move(without)), 0);
}

}  // namespace
}  // namespace agent
