#include "agent/command_run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "agent/run_setup.h"
#include "base/sys.h"
#include "wire/http1.h"

namespace agent {
namespace {

using net::Deadline;
using net::EventLoop;
using std::chrono::steady_clock;

constexpr base::Milliseconds kKillGrace{3000};
constexpr base::Milliseconds kKeepAlive{15'000};
// How often an ending tree is looked at, and a client that has sent more than its request.
constexpr base::Milliseconds kTreePoll{20};
constexpr base::Milliseconds kClientPoll{1000};
constexpr size_t kReadBytes = 64 * 1024;  // a pipe's capacity
constexpr int kExitTimedOut = 124;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;
constexpr int kExitKilled = 128 + SIGKILL;

std::string errno_text(int number) { return base::errno_error(number, "").message.substr(2); }

base::Error field_error(ErrorCode code, std::string_view field, std::string message) {
  return base::Error{
      .code = code, .message = std::move(message), .details = {{"field", std::string(field)}}};
}

}  // namespace

CommandRun::CommandRun(Agent& agent, net::Stream& client, RunRequest request)
    : agent_(agent),
      client_(client),
      request_(std::move(request)),
      out_{.pipe = {}, .store = OutputStore(agent.spool_folder.get())},
      err_{.pipe = {}, .store = OutputStore(agent.spool_folder.get())},
      changed_(agent.loop) {}

CommandRun::~CommandRun() { close_pipes(); }

Result<void> CommandRun::start() {
  ASSIGN_OR_RETURN(CommandSetup setup, prepare_command(agent_, request_));
  ASSIGN_OR_RETURN(auto out, base::sys::make_pipe());
  ASSIGN_OR_RETURN(auto err, base::sys::make_pipe());
  RETURN_IF_ERROR(base::sys::set_nonblocking(out.first.get()));
  RETURN_IF_ERROR(base::sys::set_nonblocking(err.first.get()));
  setup.spawn.output = out.second.get();
  setup.spawn.error = err.second.get();
  tree_ = std::move(setup.tree);
  oom_kills_before_ = agent_.oom_kills();
  started_at_ = last_sign_ = steady_clock::now();
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
  ++agent_.running_commands;
  tree_->set_leader(command_->pid());
  agent_.reaper.expect(command_->pid(), [this](int status) { ended(status); });
  out_.pipe = std::move(out.first);
  err_.pipe = std::move(err.first);
  watch_output(out_);
  watch_output(err_);
  watch_client();
  input_ = std::move(setup.input_end);
  write_input();
  return {};
}

void CommandRun::ended(int status) {
  wait_status_ = status;
  ended_at_ = steady_clock::now();
  --agent_.running_commands;
  changed_.notify();
}

void CommandRun::leave() {
  client_gone_ = true;
  changed_.notify();
}

void CommandRun::watch_output(Pump& pump) {
  agent_.loop.watch(pump.pipe.get(), EventLoop::Direction::read, [this, &pump] {
    // One piece a turn: a flood must not keep the loop from the others.
    read_once(pump, kReadBytes);
    if (pump.pipe) {
      watch_output(pump);
    }
  });
}

bool CommandRun::read_once(Pump& pump, size_t bytes_max) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  const ssize_t count = ::read(pump.pipe.get(), buffer.get(), std::min(bytes_max, kReadBytes));
  if (count > 0) {
    pump.store.add(std::string_view(buffer.get(), static_cast<size_t>(count)));
    return true;
  }
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    agent_.loop.forget(pump.pipe.get());
    pump.pipe.reset();
  }
  return false;
}

// What was in the pipe when the command ended still belongs to it; what its background children
// write from now on is dropped.
void CommandRun::drain(Pump& pump) {
  int waiting = 0;
  if (!pump.pipe || ::ioctl(pump.pipe.get(), FIONREAD, &waiting) != 0) {
    return;
  }
  auto left = static_cast<uint64_t>(std::max(waiting, 0));
  while (left > 0) {
    const uint64_t before = pump.store.total();
    if (!read_once(pump, left)) {
      return;
    }
    left -= pump.store.total() - before;
  }
  // The usual case: nobody else holds the other end.
  read_once(pump, 1);
}

void CommandRun::write_input() {
  while (input_ && input_written_ < request_.input.size()) {
    const std::string_view rest = std::string_view(request_.input).substr(input_written_);
    const ssize_t count = ::write(input_.get(), rest.data(), rest.size());
    if (count > 0) {
      input_written_ += static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno == EAGAIN) {
      agent_.loop.watch(input_.get(), EventLoop::Direction::write, [this] { write_input(); });
      return;
    }
    break;  // the command closed its end: it wants no more
  }
  if (input_) {
    agent_.loop.forget(input_.get());
    input_.reset();
  }
}

void CommandRun::watch_client() {
  client_timer_ = 0;
  agent_.loop.watch(client_.fd(), EventLoop::Direction::read, [this] { look_at_client(); });
}

void CommandRun::look_at_client() {
  pollfd state{.fd = client_.fd(), .events = POLLRDHUP, .revents = 0};
  ::poll(&state, 1, 0);
  if ((state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
    leave();
    return;
  }
  // The next request is already there: readiness tells nothing more, so time does.
  client_timer_ =
      agent_.loop.add_timer(steady_clock::now() + kClientPoll, [this] { watch_client(); });
}

bool CommandRun::must_stop() const {
  return client_gone_ ||
         (request_.timeout && steady_clock::now() >= started_at_ + *request_.timeout);
}

net::Task<void> CommandRun::keep_awake() {
  last_sign_ = steady_clock::now();
  std::string bytes = head_written_ ? "" : chunked_answer_head();
  head_written_ = true;
  bytes += base::cat(wire::http::chunk_head(1), " \r\n");
  const auto written = co_await client_.write_all(bytes, kKeepAlive);
  client_gone_ = client_gone_ || !written;
}

net::Task<void> CommandRun::finish() {
  while (!wait_status_ && !must_stop()) {
    base::SteadyTime next = last_sign_ + kKeepAlive;
    if (request_.timeout) {
      next = std::min(next, started_at_ + *request_.timeout);
    }
    [[maybe_unused]] const auto wake = co_await changed_.wait(Deadline::at(next));
    if (!wait_status_ && !must_stop() && steady_clock::now() >= last_sign_ + kKeepAlive) {
      co_await keep_awake();
    }
  }
  if (!wait_status_) {
    timed_out_ = !client_gone_;
    co_await end_tree();
  }
  drain(out_);
  drain(err_);
  close_pipes();
  tree_.reset();
}

// TERM for all, KILL for who is left after the grace.
net::Task<void> CommandRun::end_tree() {
  const auto kill_at = steady_clock::now() + kKillGrace;
  tree_->signal(SIGTERM);
  while (!wait_status_ || !tree_->empty()) {
    if (steady_clock::now() >= kill_at) {
      tree_->signal(SIGKILL);
    }
    [[maybe_unused]] const auto wake = co_await agent_.loop.sleep_until(Deadline::after(kTreePoll));
  }
}

void CommandRun::close_pipes() {
  if (client_timer_ != 0) {
    agent_.loop.remove_timer(std::exchange(client_timer_, 0));
  }
  if (client_.is_open()) {
    agent_.loop.unwatch(client_.fd(), EventLoop::Direction::read);
  }
  for (Pump* pump : {&out_, &err_}) {
    if (pump->pipe) {
      agent_.loop.forget(pump->pipe.get());
      agent_.leftovers.take(std::move(pump->pipe));
    }
  }
  if (input_) {
    agent_.loop.forget(input_.get());
    input_.reset();
  }
}

Result<RunOutcome> CommandRun::outcome() {
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
      outcome.exit_code = failure.errno_value == ENOENT || failure.errno_value == ENOTDIR
                              ? kExitNotFound
                              : kExitNotExecutable;
      err_.store.add(
          base::cat("sandbox: ", request_.command ? "sh" : request_.argv.front(), ": ", why, "\n"));
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
