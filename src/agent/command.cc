#include "agent/command.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <cstdlib>

#include "agent/run_setup.h"
#include "base/sys.h"

namespace agent {
namespace {

using net::Deadline;
using std::chrono::steady_clock;

constexpr base::Milliseconds kKillGrace{3000};
// How often an ending tree is looked at.
constexpr base::Milliseconds kTreePoll{20};
constexpr int kExitTimedOut = 124;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;
constexpr int kSignalBase = 128;
constexpr int kExitKilled = kSignalBase + SIGKILL;

std::string errno_text(int number) { return base::errno_error(number, "").message.substr(2); }

base::Error field_error(ErrorCode code, std::string_view field, std::string message) {
  return base::Error{
      .code = code, .message = std::move(message), .details = {{"field", std::string(field)}}};
}

bool is_missing(int errno_value) { return errno_value == ENOENT || errno_value == ENOTDIR; }

}  // namespace

RunOutcome outcome_of_status(int status) {
  RunOutcome outcome;
  if (!WIFSIGNALED(status)) {
    outcome.exit_code = WEXITSTATUS(status);
    return outcome;
  }
  const int number = WTERMSIG(status);
  const char* name = ::sigabbrev_np(number);
  outcome.exit_code = kSignalBase + number;
  outcome.signal = name != nullptr ? std::string(name) : base::cat(number);
  return outcome;
}

Command::Command(Agent& agent, CommandRequest request)
    : agent_(agent), request_(std::move(request)), changed_(agent.loop) {}

Command::~Command() {
  if (command_ && !wait_status_) {
    std::abort();  // its owner forgot to wait
  }
}

Result<void> Command::start(const Descriptors& descriptors) {
  ASSIGN_OR_RETURN(CommandSetup setup, prepare_command(agent_, request_));
  setup.spawn.input = descriptors.input;
  setup.spawn.output = descriptors.output;
  setup.spawn.error = descriptors.error;
  setup.spawn.terminal = descriptors.terminal;
  tree_ = std::move(setup.tree);
  oom_kills_before_ = agent_.oom_kills();
  started_at_ = steady_clock::now();
  // The child has the other end until its execve, or its end, closes it.
  base::Fd not_executed;
  if (descriptors.tell_executed) {
    ASSIGN_OR_RETURN(auto pipe, base::sys::make_pipe());
    executed_ = std::move(pipe.first);
    not_executed = std::move(pipe.second);
  }
  auto command = agent_.spawner.spawn(setup.spawn);
  if (!command && setup.spawn.cgroup >= 0 && command.error().errno_value != EAGAIN &&
      command.error().errno_value != ENOMEM) {
    tree_->abandon_cgroup();
    setup.spawn.cgroup = -1;
    setup.spawn.environment.push_back(tree_->marker());
    command = agent_.spawner.spawn(std::move(setup.spawn));
  }
  if (!command) {
    const bool full = command.error().errno_value == EAGAIN;
    return base::fail(full ? ErrorCode::overloaded : ErrorCode::agent_failed,
                      "the command could not be started: ", command.error().message);
  }
  command_ = std::move(*command);
  pid_ = command_->pid();
  ++agent_.running_commands;
  tree_->set_leader(pid_);
  agent_.reaper.expect(pid_, [this](int status) { ended_with(status); });
  request_.environment.clear();
  return {};
}

net::Task<void> Command::wait_executed() {
  [[maybe_unused]] const auto wake = co_await agent_.loop.wait(
      executed_.get(), net::EventLoop::Direction::read, Deadline::never());
  agent_.loop.forget(executed_.get());
  executed_.reset();
  while (command_->failure().step != SpawnStep::none && !wait_status_) {
    [[maybe_unused]] const auto ended = co_await changed_.wait(Deadline::never());
  }
}

void Command::ended_with(int status) {
  wait_status_ = status;
  ended_at_ = steady_clock::now();
  --agent_.running_commands;
  changed_.notify();
}

base::SteadyTime Command::time_out_at() const {
  return request_.timeout ? started_at_ + *request_.timeout : base::SteadyTime::max();
}

bool Command::is_late() const { return steady_clock::now() >= time_out_at(); }

void Command::signal(int number) {
  if (tree_) {
    tree_->signal(number);
  }
}

net::Task<void> Command::end_tree() {
  const auto kill_at = steady_clock::now() + kKillGrace;
  tree_->signal(SIGTERM);
  while (!wait_status_ || !tree_->empty()) {
    if (steady_clock::now() >= kill_at) {
      tree_->signal(SIGKILL);
    }
    [[maybe_unused]] const auto wake = co_await agent_.loop.sleep_until(Deadline::after(kTreePoll));
  }
}

net::Task<void> Command::end_users_of(std::vector<FileIdentity> files) {
  const auto kill_at = steady_clock::now() + kKillGrace;
  bool is_told = false;
  for (;;) {
    std::vector<pid_t> pids = tree_->users_of(files);
    if (!wait_status_) {
      pids.push_back(pid_);
    }
    if (pids.empty()) {
      co_return;
    }
    const bool is_late = steady_clock::now() >= kill_at;
    for (const pid_t pid : pids) {
      if (is_late || !is_told) {
        ::kill(pid, is_late ? SIGKILL : SIGTERM);
      }
    }
    is_told = true;
    [[maybe_unused]] const auto wake = co_await agent_.loop.sleep_until(Deadline::after(kTreePoll));
  }
}

void Command::kill_remains() {
  if (tree_) {
    tree_->signal(SIGKILL);
    tree_.reset();
  }
}

void Command::let_go() { tree_.reset(); }

void Command::let_go_if_alone() {
  // Without a cgroup its leader's number may soon be another's.
  if (tree_ && (tree_->cgroup() < 0 || tree_->empty())) {
    tree_.reset();
  }
}

void Command::release() {
  command_.reset();
  request_ = CommandRequest{};
}

std::string Command::complaint() const {
  const SpawnFailure failure = command_->failure();
  if (failure.step != SpawnStep::execute) {
    return {};
  }
  return base::cat("sandbox: ", request_.command ? "sh" : request_.argv.front(), ": ",
                   errno_text(failure.errno_value), "\n");
}

Result<RunOutcome> Command::outcome() const {
  RunOutcome outcome = outcome_of_status(*wait_status_);
  const SpawnFailure failure = command_->failure();
  const std::string why = errno_text(failure.errno_value);
  switch (failure.step) {
    case SpawnStep::none:
      break;
    case SpawnStep::folder: {
      const std::string path = request_.cwd.empty() ? agent_.config.workdir : request_.cwd;
      return std::unexpected(
          field_error(ErrorCode::cwd_invalid, "cwd",
                      base::cat("the working directory '", path, "' cannot be entered: ", why))
              .with("path", path));
    }
    case SpawnStep::identity:
      return std::unexpected(field_error(ErrorCode::user_unknown, "user",
                                         base::cat("the user is not possible here: ", why)));
    case SpawnStep::execute:
      if (failure.errno_value == E2BIG) {
        return base::fail_field(request_.command ? "command" : "argv", "argument list too long");
      }
      outcome.exit_code = is_missing(failure.errno_value) ? kExitNotFound : kExitNotExecutable;
      break;
    default:
      return base::fail(ErrorCode::agent_failed, "the command could not be started: ", why);
  }
  outcome.duration_ms =
      std::chrono::duration_cast<base::Milliseconds>(ended_at_ - started_at_).count();
  if (timed_out_) {
    outcome.timed_out = true;
    outcome.exit_code = kExitTimedOut;
    outcome.signal.clear();
  } else if (outcome.exit_code == kExitKilled) {
    // A shell reports its child's death by KILL as 137.
    outcome.oom_killed = agent_.oom_kills() > oom_kills_before_;
  }
  return outcome;
}

}  // namespace agent
