#include "service/usage_history.h"

#include <algorithm>

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

UsageHistory::Sample sample_of(const engine::Usage& usage, int64_t at_ms) {
  return {.at_ms = at_ms,
          .cpu_usec = usage.cpu_usec,
          .memory_bytes = usage.memory_bytes,
          .pids = usage.pids,
          .storage_bytes = usage.storage_bytes,
          .rx_bytes = usage.rx_bytes,
          .tx_bytes = usage.tx_bytes};
}

}  // namespace

std::optional<double> UsageHistory::cpu_percent(const Sample& before, const Sample& after) {
  const int64_t took_ms = after.at_ms - before.at_ms;
  if (before.cpu_usec < 0 || after.cpu_usec < before.cpu_usec || took_ms <= 0) {
    return std::nullopt;
  }
  constexpr double kUsecPerMs = 1000;
  constexpr double kPercent = 100;
  return static_cast<double>(after.cpu_usec - before.cpu_usec) /
         (static_cast<double>(took_ms) * kUsecPerMs) * kPercent;
}

Task<Result<void>> UsageHistory::sample() {
  CO_ASSIGN_OR_RETURN(const auto usages, co_await context_.engine.usage(""));
  const int64_t now = context_.now_ms();
  std::erase_if(by_id_, [this](const auto& row) { return !context_.live.find(row.first); });
  const size_t room =
      std::min(kSamplesMax, kSamplesOfAllMax / std::max<size_t>(by_id_.size() + usages.size(), 1));
  for (const engine::Usage& usage : usages) {
    if (!context_.live.find(usage.id)) {
      continue;
    }
    std::deque<Sample>& samples = by_id_[usage.id];
    samples.push_back(sample_of(usage, now));
    while (samples.size() > std::max<size_t>(room, 2)) {
      samples.pop_front();
    }
  }
  co_return Result<void>{};
}

Task<void> UsageHistory::run() {
  for (;;) {
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kInterval));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    // A node that is away is told of elsewhere; the series has a gap then.
    co_await sample();
  }
}

Task<Result<UsageHistory::Report>> UsageHistory::report(LivePtr live) {
  Report report;
  if (live->row.state == SandboxState::ready) {
    const auto usages = co_await context_.engine.usage(live->row.id);
    if (!usages && usages.error().code != ErrorCode::not_found &&
        usages.error().code != ErrorCode::not_ready) {
      co_return std::unexpected(usages.error());
    }
    if (usages && !usages->empty()) {
      report.now = sample_of(usages->front(), context_.now_ms());
    }
  }
  if (const auto found = by_id_.find(live->row.id); found != by_id_.end()) {
    report.series.assign(found->second.begin(), found->second.end());
  }
  co_return report;
}

}  // namespace service
