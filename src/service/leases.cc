#include "service/leases.h"

#include <algorithm>

namespace service {
namespace {

constexpr int64_t kMsPerSecond = 1000;
// How much of a lease a crash may take back.
constexpr base::Milliseconds kRenewalPause{2'000};
// The wall clock may jump; so often it is looked at anew.
constexpr int64_t kLookMs = 30'000;
constexpr int64_t kNever = INT64_MAX;

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
    case SandboxState::failed:
      break;
    case SandboxState::deleting:
    case SandboxState::deleted:
      return due;
  }
  consider(row.max_lifetime_ms, "max_lifetime");
  return due;
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
}

Leases::Use::~Use() {
  if (live_) {
    --live_->uses;
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

net::Task<void> Leases::watch_due() {
  for (;;) {
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
    while (dirty_.empty()) {
      const auto wake = co_await renewed_.wait(net::Deadline::never());
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return;
      }
    }
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kRenewalPause));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    co_await flush();
  }
}

net::Task<void> Leases::flush() {
  std::vector<store::LeaseRenewal> renewals;
  for (const LivePtr& live : std::exchange(dirty_, {})) {
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
  }
}

}  // namespace service
