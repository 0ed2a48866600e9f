#include "service/leases.h"

#include <algorithm>
#include <cstdlib>

namespace service {
namespace {

constexpr int64_t kMsPerSecond = 1000;
// How much of a lease a crash may take back.
constexpr base::Milliseconds kRenewalPause{2'000};
// So often it is looked whether the clock was stepped.
constexpr int64_t kLookMs = 1'000;
// Two clocks drift apart by some milliseconds in this time.
constexpr std::chrono::seconds kServerLookPause{10};
constexpr int64_t kNever = INT64_MAX;
// A renewal of another gateway is in the store by then: its kRenewalPause and a slow write.
constexpr int64_t kOthersRenewalsMs = 3'000;
// The one that drives a sandbox ends it; the others only where that one does not.
constexpr int64_t kOthersTurnMs = 1'000;
// A used sandbox' lease is written again when so much of it is left, or half of it if that is less.
constexpr int64_t kUsedLeaseLeftMs = 60'000;

}  // namespace

Leases::Leases(Context& context, OnDue on_due)
    : context_(context),
      on_due_(std::move(on_due)),
      due_changed_(context.loop),
      renewed_(context.loop) {}

// When its time is over and why.
std::pair<int64_t, std::string> Leases::due_of(const Live& live) const {
  const SandboxRow& row = live.row;
  std::pair<int64_t, std::string> due{kNever, ""};
  const auto consider = [&due](int64_t at, std::string_view reason) {
    if (at > 0 && at < due.first) {
      due = {at, std::string(reason)};
    }
  };
  switch (row.state) {
    case SandboxState::ready:
      consider(
          live.uses > 0 ? context_.now_ms() + row.lease_sec * kMsPerSecond : row.lease_expires_ms,
          "lease_expired");
      break;
    case SandboxState::starting:
      consider(row.start_deadline_ms, "start_timeout");
      break;
    case SandboxState::queued:
      consider(row.queue_deadline_ms, "queue_timeout");
      break;
    case SandboxState::failed:
      break;
    case SandboxState::deleting:
    case SandboxState::deleted:
      return due;
  }
  consider(row.max_lifetime_ms, "max_lifetime");
  if (due.first != kNever) {
    due.first += grace_ms(live);
  }
  return due;
}

void Leases::take_up(const LivePtr& live) {
  SandboxRow& row = live->row;
  const auto bound = [now = context_.now_ms()](int64_t& at, int64_t seconds) {
    at = seconds == 0 ? at : std::min(at, now + seconds * kMsPerSecond);
  };
  bound(row.lease_expires_ms, row.lease_sec);
  bound(row.max_lifetime_ms, row.max_lifetime_sec);
  if (const TeamPtr team = context_.teams.find(row.team)) {
    bound(row.queue_deadline_ms, team->queue_max_sec);
    bound(row.start_deadline_ms, team->start_max_sec);
  }
  note(live);
}

int64_t Leases::grace_ms(const Live& live) const {
  if (context_.replicas.alone()) {
    return 0;
  }
  const int64_t renewals = live.row.state == SandboxState::ready ? kOthersRenewalsMs : 0;
  return renewals + (context_.replicas.drives(live.row) ? 0 : kOthersTurnMs);
}

void Leases::note(const LivePtr& live) {
  const int64_t at = due_of(*live).first;
  // An entry that is too early is found out when it is looked at.
  if (at == kNever || (live->due_noted_ms != 0 && live->due_noted_ms <= at)) {
    return;
  }
  if (live->due_noted_ms != 0) {
    due_.erase({live->due_noted_ms, live->row.id});
  }
  live->due_noted_ms = at;
  due_.emplace(at, live->row.id);
  if (due_.begin()->second == live->row.id) {
    due_changed_.notify();
  }
}

void Leases::renew(const LivePtr& live) {
  if (live->row.state != SandboxState::ready) {
    return;
  }
  const int64_t now = context_.now_ms();
  live->row.last_activity_ms = std::max(live->row.last_activity_ms, now);
  live->row.lease_expires_ms =
      std::max(live->row.lease_expires_ms, now + live->row.lease_sec * kMsPerSecond);
  if (!live->dirty) {
    live->dirty = true;
    dirty_.push_back(live);
    renewed_.notify();
  }
}

Leases::Use::Use(Leases& leases, LivePtr live) : leases_(&leases), live_(std::move(live)) {
  leases_->renew(live_);
  ++live_->uses;
  ++leases_->uses_;
}

Leases::Use::~Use() {
  if (live_) {
    --live_->uses;
    --leases_->uses_;
    leases_->renew(live_);
  }
}

void Leases::check_due() {
  const int64_t now = context_.now_ms();
  while (!due_.empty() && due_.begin()->first <= now) {
    const LivePtr live = context_.live.find(due_.begin()->second);
    due_.erase(due_.begin());
    if (!live) {
      continue;
    }
    live->due_noted_ms = 0;
    auto [at, reason] = due_of(*live);
    if (at <= now) {
      on_due_(live, std::move(reason));
    } else {
      note(live);
    }
  }
}

net::Task<void> Leases::follow_clock() {
  if (!co_await follow_server()) {
    co_await follow_step();
  }
}

net::Task<bool> Leases::follow_server() {
  const base::SteadyTime now = context_.clock.steady();
  if (!has_server_ || now < server_look_) {
    co_return has_server_;
  }
  server_look_ = now + kServerLookPause;
  const int64_t asked_ms = context_.now_ms();
  auto ask = [this] { return context_.store.server_time_ms(); };
  const auto told = co_await context_.pool.run(std::move(ask));
  if (!told) {
    co_return true;  // not reached: the time goes on by the steady clock
  }
  has_server_ = told->has_value();
  if (has_server_) {
    // Told about half-way between question and answer.
    context_.store_clock.take_over(**told - (asked_ms + context_.now_ms()) / 2);
  }
  co_return has_server_;
}

net::Task<void> Leases::follow_step() {
  StoreClock& time = context_.store_clock;
  if (std::abs(time.difference_ms()) < kClockStepMs) {
    time.take_over(time.difference_ms());
  } else {
    // What was noted by the time before is stored first.
    co_await context_.journal.flush();
    co_await flush();
    const int64_t step = time.difference_ms();
    context_.log.warning("the clock was stepped: deadlines move with it", {{"step_ms", step}});
    due_.clear();
    for (const auto& [id, live] : context_.live.all()) {
      SandboxRow& row = live->row;
      for (int64_t* deadline : {&row.queue_deadline_ms, &row.start_deadline_ms,
                                &row.lease_expires_ms, &row.max_lifetime_ms}) {
        *deadline += *deadline == 0 ? 0 : step;
      }
      live->due_noted_ms = 0;
    }
    time.take_over(step);
    for (const auto& [id, live] : context_.live.all()) {
      note(live);
    }
    unstored_shift_ms_ += step;
  }
  const int64_t shift = std::exchange(unstored_shift_ms_, 0);
  if (shift == 0) {
    co_return;
  }
  auto write = [this, shift] { return context_.store.shift_deadlines(shift); };
  if (const auto written = co_await context_.pool.run(std::move(write)); !written) {
    context_.log.error("deadlines could not be stored", {{"error", written.error().message}});
    unstored_shift_ms_ += shift;  // the next look tries again
  }
}

net::Task<void> Leases::watch_due() {
  for (;;) {
    co_await follow_clock();
    check_due();
    const int64_t wait_ms =
        due_.empty() ? kLookMs
                     : std::clamp<int64_t>(due_.begin()->first - context_.now_ms(), 1, kLookMs);
    const auto wake = co_await due_changed_.wait(net::Deadline::after(base::Milliseconds(wait_ms)));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

net::Task<void> Leases::write_renewals() {
  for (;;) {
    while (dirty_.empty() && uses_ == 0) {
      const auto wake = co_await renewed_.wait(net::Deadline::never());
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return;
      }
    }
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kRenewalPause));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    renew_used();
    co_await flush();
  }
}

void Leases::renew_used() {
  if (uses_ == 0) {
    return;
  }
  const int64_t now = context_.now_ms();
  for (const auto& [id, live] : context_.live.all()) {
    const int64_t enough = std::min(kUsedLeaseLeftMs, live->row.lease_sec * kMsPerSecond / 2);
    if (live->uses > 0 && live->row.lease_expires_ms - now <= enough) {
      renew(live);
    }
  }
}

net::Task<void> Leases::flush() {
  std::vector<store::LeaseRenewal> renewals;
  const std::vector<LivePtr> renewed = std::exchange(dirty_, {});
  for (const LivePtr& live : renewed) {
    live->dirty = false;
    renewals.push_back({.team = live->row.team,
                        .id = live->row.id,
                        .last_activity_ms = live->row.last_activity_ms,
                        .lease_expires_ms = live->row.lease_expires_ms});
  }
  if (renewals.empty()) {
    co_return;
  }
  auto write = [this, &renewals] { return context_.store.renew_leases(renewals); };
  if (const auto written = co_await context_.pool.run(std::move(write)); !written) {
    context_.log.error("leases could not be stored", {{"error", written.error().message}});
    for (const LivePtr& live : renewed) {
      if (!std::exchange(live->dirty, true)) {
        dirty_.push_back(live);
      }
    }
  }
}

}  // namespace service
