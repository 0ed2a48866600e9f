#include "service/admission.h"

#include <algorithm>
#include <tuple>

#include "base/fault.h"

namespace service {
namespace {

// While somebody waits: so often it is decided anew without being told to, for what another
// gateway on the same store has set free.
constexpr base::Milliseconds kLookPause{5'000};
// What another gateway decides when it sets quota free has been heard of by then.
constexpr base::Milliseconds kOthersPause{200};
constexpr base::Milliseconds kRetryPause{1'000};

}  // namespace

model::TeamQuota quota_of(const Team& team) {
  return {.name = team.name,
          .nominal = {team.quota_millicpus, team.quota_memory_mb, team.quota_storage_mb,
                      team.quota_sandboxes},
          .borrowing = {team.borrow_millicpus, team.borrow_memory_mb, team.borrow_storage_mb,
                        team.borrow_sandboxes},
          .lending = {team.lend_millicpus, team.lend_memory_mb, team.lend_storage_mb,
                      team.lend_sandboxes},
          .reclaim = team.reclaim};
}

Admission::Admission(Context& context, model::Limits total, Effects effects)
    : context_(context),
      total_(total),
      effects_(std::move(effects)),
      wanted_changed_(context.loop) {}

void Admission::enqueue(const LivePtr& live) {
  auto& tickets = tickets_[live->row.team];
  const auto place = std::ranges::lower_bound(tickets, live->row.ticket);
  if (place == tickets.end() || *place != live->row.ticket) {
    tickets.insert(place, live->row.ticket);
  }
}

void Admission::forget(const LivePtr& live) {
  const auto found = tickets_.find(live->row.team);
  if (found == tickets_.end()) {
    return;
  }
  auto& tickets = found->second;
  const auto place = std::ranges::lower_bound(tickets, live->row.ticket);
  if (place != tickets.end() && *place == live->row.ticket) {
    tickets.erase(place);
    live->row.message.clear();  // why it waited
  }
  if (tickets.empty()) {
    tickets_.erase(found);
  }
}

void Admission::apply(const store::Admission& decision) {
  for (const store::Sandbox& row : decision.admitted) {
    const LivePtr live = context_.live.find(row.id);
    if (live && live->row.state != SandboxState::queued && live->unwritten > 0) {
      // It ended before it was told: its removal gives back what it got.
      live->row.holds_quota = true;
      live->row.admitted_ms = row.admitted_ms;
      if (live->row.state == SandboxState::failed) {
        effects_.too_late(live);
      }
      continue;
    }
    effects_.changed(row);
  }
  for (const store::Sandbox& row : decision.reclaimed) {
    const LivePtr live = context_.live.find(row.id);
    if (!live || live->row.state != SandboxState::deleting) {
      effects_.preempted(row);
    }
  }
  for (const auto& [id, reason] : decision.reasons) {
    const LivePtr live = context_.live.find(id);
    if (live && live->row.state == SandboxState::queued) {
      live->row.message = reason;
    }
  }
}

void Admission::look_later() {
  if (!std::exchange(wanted_later_, true)) {
    wanted_changed_.notify();
  }
}

void Admission::look_again() {
  wanted_ = true;
  wanted_changed_.notify();
}

bool Admission::nobody_waits() const { return tickets_.empty(); }

net::Task<bool> Admission::decide() {
  base::fault_point("gateway.admit.before_store");
  auto work = [this] { return context_.store.admit_queued(rules(), context_.now_ms()); };
  const auto decision = co_await context_.pool.run(std::move(work));
  base::fault_point("gateway.admit.after_store");
  if (!decision) {
    context_.log.error("the queue could not be looked at", {{"error", decision.error().message}});
    co_return false;
  }
  apply(*decision);
  co_return true;
}

net::Task<void> Admission::run() {
  for (;;) {
    while (nobody_waits() || !wanted_) {
      const auto pause = wanted_later_ ? kOthersPause : kLookPause;
      const auto deadline = nobody_waits() ? net::Deadline::never() : net::Deadline::after(pause);
      const auto wake = co_await wanted_changed_.wait(deadline);
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return;
      }
      if (wake != net::EventLoop::Wake::ready) {
        break;
      }
    }
    wanted_ = false;
    wanted_later_ = false;
    if (nobody_waits() || co_await decide()) {
      continue;
    }
    wanted_ = true;
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kRetryPause));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

std::optional<Admission::Place> Admission::place_of(const SandboxRow& row) const {
  const auto found = tickets_.find(row.team);
  if (row.state != SandboxState::queued || found == tickets_.end()) {
    return std::nullopt;
  }
  const auto before = std::ranges::lower_bound(found->second, row.ticket) - found->second.begin();
  if (!row.message.empty()) {
    return Place{.position = before + 1, .reason = row.message};
  }
  return Place{
      .position = before + 1,
      .reason = before == 0 ? "to be decided" : base::cat(before, " of the team come before it")};
}

model::Amounts Admission::borrowed(const SandboxRow& row) const {
  const TeamPtr team = row.holds_quota ? context_.teams.find(row.team) : nullptr;
  if (!team) {
    return {};
  }
  const model::TeamQuota quota = quota_of(*team);
  if (!quota.limited()) {
    return {};
  }
  Borrowed& known = borrowed_[row.team];
  if (known.version != context_.live.version() || known.team != team) {
    known = {.version = context_.live.version(), .team = team};
    std::vector<const SandboxRow*> rows;
    for (const auto& [id, live] : context_.live.all()) {
      if (live->row.holds_quota && live->row.team == row.team) {
        rows.push_back(&live->row);
      }
    }
    std::ranges::sort(rows, {},
                      [](const SandboxRow* one) { return std::tie(one->admitted_ms, one->id); });
    std::vector<model::Amounts> holds;
    holds.reserve(rows.size());
    for (const SandboxRow* one : rows) {
      holds.push_back(model::amounts_of(one->resources));
    }
    const auto borrowed = model::borrowed_of_each(quota, holds);
    for (size_t i = 0; i < rows.size(); ++i) {
      known.by_id.emplace(rows[i]->id, borrowed[i]);
    }
  }
  const auto found = known.by_id.find(row.id);
  return found == known.by_id.end() ? model::Amounts{} : found->second;
}

net::Task<base::Result<Admission::Overview>> Admission::overview() {
  co_await context_.journal.flush();
  auto read = [this] { return context_.store.quotas(); };
  CO_ASSIGN_OR_RETURN(const store::Quotas rows, co_await context_.pool.run(std::move(read)));
  const model::Quotas quotas(rows.teams, total_);
  const model::Balance balance(quotas, rows.used);
  Overview out{.total = total_};
  for (size_t i = 0; i < model::kDimensions; ++i) {
    out.pool_size[i] = quotas.pool_size(static_cast<model::Dimension>(i));
    out.pool_used[i] = balance.pool_used(static_cast<model::Dimension>(i));
  }
  auto shares = model::shares(quotas, rows.used);
  for (size_t i = 0; i < shares.size(); ++i) {
    model::add(out.used, shares[i].used);
    const auto queued = rows.queued.find(shares[i].name);
    out.teams.push_back({.quota = rows.teams[i],
                         .share = std::move(shares[i]),
                         .queued = queued == rows.queued.end() ? 0 : queued->second,
                         .drained = rows.drained.contains(rows.teams[i].name)});
  }
  co_return out;
}

}  // namespace service
