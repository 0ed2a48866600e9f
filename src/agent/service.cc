#include "agent/service.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/populate.h"
#include "base/log.h"

namespace agent {
namespace {

using net::Deadline;
using std::chrono::steady_clock;

constexpr size_t kOutputBytesMax = 2048;
constexpr size_t kCheckOutputMax = 1024;
// Between two runs of a command that ends at once; doubled each time, until it has run for long
// enough.
constexpr base::Milliseconds kRestartPause{100};
constexpr base::Milliseconds kRestartPauseMax{60'000};
constexpr base::Milliseconds kSteadyRun{10'000};

// The newest bytes of a session's log.
std::string end_of_log(const SessionPtr& session, size_t bytes_max) {
  if (!session) {
    return "";
  }
  const SessionLog& log = session->log();
  uint64_t at = std::max(log.start_offset(),
                         log.end_offset() - std::min<uint64_t>(log.end_offset(), bytes_max));
  std::string out;
  std::array<char, 1024> buffer{};
  while (at < log.end_offset()) {
    const auto count = log.read(at, buffer);
    if (!count || *count == 0) {
      break;
    }
    out.append(buffer.data(), *count);
    at += *count;
  }
  return out;
}

}  // namespace

Service::Service(Agent& agent, Sessions& sessions)
    : agent_(agent),
      sessions_(sessions),
      config_(*agent.config.service),
      changed_(agent.loop),
      group_(agent.loop) {}

Result<void> Service::start() {
  if (started_) {
    return {};
  }
  for (size_t i = 0; i < agent_.config.mounts.size() && i < agent_.covered.size(); ++i) {
    const MountConfig& mount = agent_.config.mounts[i];
    if (!mount.copy) {
      continue;
    }
    const base::Fd target(::open(mount.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!target) {
      return base::fail_errno(errno, "open ", mount.path);
    }
    RETURN_IF_ERROR(base::with_context(populate(agent_.covered[i].get(), target.get()),
                                       "fill the volume on " + mount.path));
  }
  started_ = true;
  if (config_.argv.empty()) {
    change(State::idle);
  } else {
    change(State::running);
    group_.spawn(run());
  }
  if (config_.healthcheck) {
    set_health(Health::starting);
    group_.spawn(check_health());
  }
  return {};
}

void Service::stop() {
  stopping_ = true;
  if (!started_ || state_ == State::idle) {
    started_ = true;
    change(State::exited);
  }
  for (const SessionPtr& session : {session_, check_}) {
    if (session) {
      session->end(false);
    }
  }
  note_change();
}

net::Task<void> Service::end() {
  stop();
  co_await group_.join();
}

void Service::note_change() {
  ++version_;
  changed_.notify();
}

void Service::change(State state) {
  state_ = state;
  note_change();
}

void Service::set_health(Health health) {
  if (health_ != health) {
    health_ = health;
    note_change();
  }
}

net::Task<void> Service::wait_change(uint64_t version, Deadline deadline) {
  while (version_ == version) {
    const auto wake = co_await changed_.wait(deadline);
    if (wake != net::EventLoop::Wake::ready) {
      break;
    }
  }
}

// Until then, or until it is stopped.
net::Task<void> Service::sleep(base::Milliseconds time) {
  const auto deadline = Deadline::after(time);
  while (!stopping_) {
    const auto wake = co_await changed_.wait(deadline);
    if (wake != net::EventLoop::Wake::ready) {
      break;
    }
  }
}

bool Service::runs_again(int exit_code) const {
  if (stopping_ || config_.restart == model::Restart::no) {
    return false;
  }
  if (config_.restart == model::Restart::on_failure && exit_code == 0) {
    return false;
  }
  return config_.restarts_max == 0 || restarts_ < config_.restarts_max;
}

net::Task<void> Service::run() {
  base::Milliseconds pause = kRestartPause;
  for (;;) {
    SessionRequest request;
    request.argv = config_.argv;
    request.input = config_.input;
    if (config_.terminal) {
      request.terminal = WindowSize{};
    }
    began_ = steady_clock::now();
    session_ = sessions_.start_own(std::move(request));
    if (!session_) {
      break;
    }
    change(State::running);
    while (!session_->over()) {
      [[maybe_unused]] const auto wake = co_await session_->changed().wait(Deadline::never());
    }
    if (!runs_again(session_->outcome().exit_code)) {
      break;
    }
    ++restarts_;
    failures_ = 0;
    change(State::restarting);
    pause = steady_clock::now() - began_ >= kSteadyRun ? kRestartPause : pause;
    co_await sleep(pause);
    pause = std::min(pause * 2, kRestartPauseMax);
    if (stopping_) {
      break;
    }
    if (config_.healthcheck) {
      set_health(Health::starting);
    }
  }
  change(State::exited);
}

net::Task<void> Service::check_health() {
  const model::Healthcheck& check = *config_.healthcheck;
  const base::Milliseconds start_period(check.start_period_ms);
  // One that is well at once need not be waited for; that it is not yet counts for nothing.
  bool counts = false;
  while (!stopping_ && state_ != State::exited) {
    const bool is_early = steady_clock::now() - began_ < start_period;
    if (state_ == State::running || state_ == State::idle) {
      co_await check_once(counts && !is_early);
      counts = true;
    }
    const bool waits_for_start = is_early && health_ == Health::starting;
    co_await sleep(base::Milliseconds(waits_for_start
                                          ? std::min(check.start_interval_ms, check.interval_ms)
                                          : check.interval_ms));
  }
}

net::Task<void> Service::check_once(bool counts) {
  SessionRequest request;
  request.argv = config_.healthcheck->argv;
  request.timeout = base::Milliseconds(config_.healthcheck->timeout_ms);
  request.input = false;
  request.log_bytes = kLogBytesMin;
  const int64_t run = restarts_;
  check_ = std::make_shared<Session>(agent_, "check", std::move(request));
  bool is_well = false;
  if (const auto started = check_->start(); started) {
    co_await check_->supervise();
    check_output_ =
        check_->failure() ? check_->failure()->message : end_of_log(check_, kCheckOutputMax);
    is_well =
        !check_->failure() && check_->outcome().exit_code == 0 && !check_->outcome().timed_out;
    if (check_->outcome().timed_out) {
      check_output_ +=
          base::cat("(the check took longer than ", config_.healthcheck->timeout_ms, " ms)");
    }
  } else {
    check_output_ = started.error().message;
  }
  check_.reset();
  if (run != restarts_ || state_ == State::exited) {
    co_return;  // it was of a command that has ended
  }
  if (is_well) {
    failures_ = 0;
    set_health(Health::healthy);
  } else if (counts || health_ == Health::healthy) {
    ++failures_;
    if (failures_ >= config_.healthcheck->retries) {
      set_health(Health::unhealthy);
    }
  }
}

std::string Service::json() const {
  constexpr std::array<std::string_view, 5> kStates{"waiting", "running", "restarting", "exited",
                                                    "idle"};
  constexpr std::array<std::string_view, 4> kHealths{"none", "starting", "healthy", "unhealthy"};
  const bool has_ended = session_ && session_->over();
  std::string out =
      base::cat("{\"state\":\"", kStates[static_cast<size_t>(state_)], "\",\"health\":\"",
                kHealths[static_cast<size_t>(health_)],
                "\",\"exit_code\":", has_ended ? base::cat(session_->outcome().exit_code) : "null",
                ",\"restarts\":", restarts_, ",\"version\":", version_, ",\"output\":");
  base::append_json_string(out, has_ended ? end_of_log(session_, kOutputBytesMax) : "");
  out += ",\"check_output\":";
  base::append_json_string(out, check_output_);
  return out + "}";
}

}  // namespace agent
