#include "model/quota.h"

#include <algorithm>

#include "base/text.h"

namespace model {
namespace {

constexpr std::array kAll{Dimension::cpus, Dimension::memory, Dimension::storage,
                          Dimension::sandboxes};

size_t index(Dimension dimension) { return static_cast<size_t>(dimension); }

int64_t used_by(const Usage& usage, std::string_view team, Dimension dimension) {
  const auto found = usage.find(team);
  return found == usage.end() ? 0 : found->second[index(dimension)];
}

// What of its nominal quota a team puts into the pool.
int64_t shared_part(const TeamQuota& team, size_t i) {
  const int64_t nominal = team.nominal[i].value_or(0);
  return std::min(nominal, team.lending[i].value_or(nominal));
}

// What it keeps for itself.
int64_t kept_part(const TeamQuota& team, size_t i) {
  return team.nominal[i].value_or(0) - shared_part(team, i);
}

// What a team that uses `used` takes from the pool.
int64_t from_pool(const TeamQuota& team, size_t i, int64_t used) {
  return std::max<int64_t>(0, used - kept_part(team, i));
}

// `borrowed` of the pool's, divided among the lenders in proportion to what each does not use; the
// parts sum up to it exactly.
void divide_lent(const Quotas& quotas, const Usage& usage, size_t i, int64_t borrowed,
                 std::vector<TeamShare>& out) {
  std::vector<int64_t> unused;
  int64_t sum = 0;
  for (const TeamQuota& team : quotas.teams()) {
    const int64_t used = used_by(usage, team.name, kAll[i]);
    unused.push_back(std::max<int64_t>(0, shared_part(team, i) - from_pool(team, i, used)));
    sum += unused.back();
  }
  int64_t left = std::min(borrowed, sum);
  for (size_t t = 0; t < unused.size() && sum > 0; ++t) {
    // Of what is left among those who are left: the last one takes the rest.
    const auto part = static_cast<int64_t>(static_cast<__int128>(left) * unused[t] / sum);
    out[t].lent[i] = part;
    left -= part;
    sum -= unused[t];
  }
}

}  // namespace

std::string_view to_string(Dimension dimension) {
  constexpr std::array<std::string_view, kDimensions> kNames{"cpus", "memory_mb", "storage_mb",
                                                             "sandboxes"};
  return kNames[index(dimension)];
}

std::string amount_text(Dimension dimension, int64_t amount) {
  if (dimension != Dimension::cpus) {
    return base::cat(amount);
  }
  constexpr int64_t kThousand = 1000;
  std::string text = base::cat(amount < 0 ? "-" : "", std::abs(amount) / kThousand);
  if (const int64_t rest = std::abs(amount) % kThousand; rest != 0) {
    std::string digits = base::cat(kThousand + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text;
}

Amounts amounts_of(const Resources& resources) {
  return {resources.millicpus, resources.memory_mb, resources.storage_mb, 1};
}

void add(Amounts& sum, const Amounts& more) {
  for (size_t i = 0; i < kDimensions; ++i) {
    sum[i] += more[i];
  }
}

void subtract(Amounts& sum, const Amounts& less) {
  for (size_t i = 0; i < kDimensions; ++i) {
    sum[i] -= less[i];
  }
}

bool TeamQuota::limited() const {
  return std::ranges::any_of(nominal, [](const auto& limit) { return limit.has_value(); });
}

Quotas::Quotas(const std::vector<TeamQuota>& teams, const Limits& total)
    : teams_(teams), total_(total) {
  for (const TeamQuota& team : teams_) {
    by_name_.emplace(team.name, &team);
    for (size_t i = 0; i < kDimensions; ++i) {
      pool_size_[i] += shared_part(team, i);
    }
  }
}

const TeamQuota* Quotas::find(std::string_view team) const {
  const auto found = by_name_.find(team);
  return found == by_name_.end() ? nullptr : found->second;
}

int64_t Quotas::pool_size(Dimension dimension) const { return pool_size_[index(dimension)]; }

Balance::Balance(const Quotas& quotas, const Usage& usage) : quotas_(&quotas) {
  for (const auto& [team, used] : usage) {
    add(team, used);
  }
}

void Balance::add(std::string_view team, const Amounts& more) { change(team, more, 1); }
void Balance::subtract(std::string_view team, const Amounts& less) { change(team, less, -1); }

void Balance::change(std::string_view team, const Amounts& by, int64_t sign) {
  auto found = usage_.find(team);
  if (found == usage_.end()) {
    found = usage_.emplace(team, Amounts{}).first;
  }
  const TeamQuota* quota = quotas_->find(team);
  for (size_t i = 0; i < kDimensions; ++i) {
    int64_t& used = found->second[i];
    const int64_t before = used;
    used += sign * by[i];
    used_by_all_[i] += sign * by[i];
    if (quota != nullptr && quota->nominal[i]) {
      pool_used_[i] += from_pool(*quota, i, used) - from_pool(*quota, i, before);
    }
  }
}

Amounts Balance::used(std::string_view team) const {
  const auto found = usage_.find(team);
  return found == usage_.end() ? Amounts{} : found->second;
}

int64_t Balance::pool_used(Dimension dimension) const { return pool_used_[index(dimension)]; }

std::optional<Shortage> Balance::shortage(std::string_view team, const Amounts& wants) const {
  const TeamQuota* quota = quotas_->find(team);
  const Amounts used_now = used(team);
  std::optional<Shortage> shared;
  for (const Dimension dimension : kAll) {
    const size_t i = index(dimension);
    if (wants[i] == 0) {
      continue;
    }
    if (quota != nullptr && quota->nominal[i]) {
      const auto& borrowing = quota->borrowing[i];
      if (borrowing && wants[i] > *quota->nominal[i] + *borrowing - used_now[i]) {
        return Shortage{.dimension = dimension,
                        .obstacle = Obstacle::own_limit,
                        .free = *quota->nominal[i] + *borrowing - used_now[i]};
      }
      const int64_t more =
          from_pool(*quota, i, used_now[i] + wants[i]) - from_pool(*quota, i, used_now[i]);
      const int64_t free = quotas_->pool_size(dimension) - pool_used_[i];
      if (more > 0 && more > free && !shared) {
        shared = Shortage{.dimension = dimension, .obstacle = Obstacle::pool, .free = free};
      }
    }
    if (const auto& total = quotas_->total()[i]; total && !shared) {
      const int64_t free = *total - used_by_all_[i];
      if (wants[i] > free) {
        shared = Shortage{.dimension = dimension, .obstacle = Obstacle::total, .free = free};
      }
    }
  }
  return shared;
}

bool Balance::borrows(std::string_view team, const Amounts& wants) const {
  const TeamQuota* quota = quotas_->find(team);
  if (quota == nullptr) {
    return false;
  }
  const Amounts used_now = used(team);
  return std::ranges::any_of(kAll, [&](Dimension dimension) {
    const size_t i = index(dimension);
    return wants[i] > 0 && quota->nominal[i] && used_now[i] + wants[i] > *quota->nominal[i];
  });
}

std::vector<TeamShare> shares(const Quotas& quotas, const Usage& usage) {
  std::vector<TeamShare> out;
  Amounts borrowed{};
  for (const TeamQuota& team : quotas.teams()) {
    TeamShare share{.name = team.name};
    for (size_t i = 0; i < kDimensions; ++i) {
      share.used[i] = used_by(usage, team.name, kAll[i]);
      share.own[i] = std::min(share.used[i], team.nominal[i].value_or(share.used[i]));
      share.borrowed[i] = share.used[i] - share.own[i];
    }
    add(borrowed, share.borrowed);
    out.push_back(std::move(share));
  }
  for (size_t i = 0; i < kDimensions; ++i) {
    divide_lent(quotas, usage, i, borrowed[i], out);
  }
  return out;
}

std::vector<Amounts> borrowed_of_each(const TeamQuota& team, const std::vector<Amounts>& holds) {
  std::vector<Amounts> out;
  Amounts sum{};
  for (const Amounts& one : holds) {
    add(sum, one);
    Amounts borrowed{};
    for (size_t i = 0; i < kDimensions; ++i) {
      if (team.nominal[i]) {
        borrowed[i] = std::clamp<int64_t>(sum[i] - *team.nominal[i], 0, one[i]);
      }
    }
    out.push_back(borrowed);
  }
  return out;
}

}  // namespace model
