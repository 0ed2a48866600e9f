#include "service/replicas.h"

#include <algorithm>

namespace service {
namespace {

using base::Result;

// A row of one that was silent for so long goes; whoever comes back makes it again.
constexpr int64_t kForgetMs = 60'000;
// A row that is so old when it is first seen is of a gateway that is gone.
constexpr int64_t kOldMs = 10'000;

}  // namespace

Replicas::Replicas(net::EventLoop& loop, base::Clock& clock, const StoreClock& store_clock,
                   net::BlockingPool& pool, store::Store& store, base::Log& log, Identity identity)
    : loop_(loop),
      clock_(clock),
      store_clock_(store_clock),
      pool_(pool),
      store_(store),
      log_(log),
      identity_(std::move(identity)),
      started_ms_(store_clock.now_ms()),
      beaten_(clock.steady()) {}

bool Replicas::lives(const std::string& id) const {
  return id == identity_.id || others_.contains(id);
}

Replica Replicas::own() const {
  return {.id = identity_.id,
          .address = identity_.address,
          .version = SANDBOX_VERSION,
          .started_ms = started_ms_,
          .heartbeat_ms = store_clock_.now_ms(),
          .draining = draining_,
          .connections = count_ ? count_() : 0};
}

net::Task<Result<void>> Replicas::join() {
  if (!shared()) {
    co_return Result<void>{};
  }
  auto write = [this, row = own()] { return store_.put_replica(row); };
  CO_RETURN_IF_ERROR(co_await pool_.run(std::move(write)));
  co_return co_await beat();
}

void Replicas::note(const std::vector<Replica>& rows) {
  const base::SteadyTime now = clock_.steady();
  std::map<std::string, Heard> heard_now;
  std::set<std::string> living;
  for (const Replica& row : rows) {
    if (row.id == identity_.id) {
      continue;
    }
    Heard heard{.heartbeat_ms = row.heartbeat_ms, .since = now};
    if (const auto before = heard_.find(row.id); before != heard_.end()) {
      heard.since = before->second.heartbeat_ms == row.heartbeat_ms ? before->second.since : now;
    } else if (row.heartbeat_ms < store_clock_.now_ms() - kOldMs) {
      heard.since = now - kSilence;
    }
    heard_now.emplace(row.id, heard);
    if (now - heard.since < kSilence) {
      living.insert(row.id);
    }
  }
  for (const std::string& id : others_) {
    if (!living.contains(id)) {
      log_.warning("another gateway is gone", {{"replica", id}});
    }
  }
  for (const std::string& id : living) {
    if (!others_.contains(id)) {
      log_.info("another gateway is on the store", {{"replica", id}});
    }
  }
  if (heard_now.empty() && !heard_.empty()) {
    ++departures_;
  }
  heard_ = std::move(heard_now);
  others_ = std::move(living);
}

net::Task<Result<void>> Replicas::beat() {
  Replica row = own();
  const base::SteadyTime asked = clock_.steady();
  auto write = [this, &row] { return store_.beat(row, row.heartbeat_ms - kForgetMs); };
  auto rows = co_await pool_.run(std::move(write));
  if (!rows) {
    missed_ = true;
    co_return std::unexpected(std::move(rows).error());
  }
  if (std::exchange(missed_, false)) {
    // Who could not reach the store either has been silent for no fault of its own.
    for (auto& [id, heard] : heard_) {
      heard.since = clock_.steady();
    }
  }
  // While the store let wait, nobody could be heard.
  const base::SteadyTime now = clock_.steady();
  for (auto& [id, heard] : heard_) {
    heard.since = std::min(heard.since + (now - asked), now);
  }
  note(*rows);
  beaten_ = now;
  co_return Result<void>{};
}

net::Task<void> Replicas::run(std::function<void()> on_look, std::function<void()> on_return) {
  while (shared()) {
    const auto wake = co_await loop_.sleep_until(net::Deadline::after(kBeat));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    const base::SteadyTime before = beaten_;
    const auto beaten = co_await beat();
    if (!beaten) {
      continue;
    }
    if (clock_.steady() - before >= kSilence) {
      on_return();
    }
    on_look();
  }
}

net::Task<void> Replicas::drain() {
  draining_ = true;
  if (shared()) {
    auto write = [this, row = own()] { return store_.put_replica(row); };
    if (const auto written = co_await pool_.run(std::move(write)); !written) {
      log_.warning("the store is not told that this gateway stops",
                   {{"error", written.error().message}});
    }
  }
}

net::Task<void> Replicas::leave() {
  if (!shared()) {
    co_return;
  }
  auto write = [this] { return store_.remove_replica(identity_.id); };
  if (const auto written = co_await pool_.run(std::move(write)); !written) {
    log_.warning("the store is not told that this gateway has stopped",
                 {{"error", written.error().message}});
  }
}

net::Task<Result<std::vector<Replica>>> Replicas::list() {
  if (!shared()) {
    co_return std::vector{own()};
  }
  auto read = [this] { return store_.list_replicas(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await pool_.run(std::move(read)));
  std::erase_if(rows, [this](const Replica& row) { return !lives(row.id); });
  co_return rows;
}

}  // namespace service
