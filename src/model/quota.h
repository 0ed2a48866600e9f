// Quotas of teams that share a pool, as Kueue's cohorts have them: what a team owns (nominal), how
// much more it may borrow, and how much of what it does not use others may borrow. Pure values.
//
// In each dimension a team keeps `nominal - lending` for itself and puts the rest into the pool. It
// uses its own part first, then the pool; what it uses above its nominal is borrowed. A team
// without a nominal quota in a dimension is not limited there and takes no part in the pool; only
// the operator's total limits it. One whose nominal quota is 0 lives on what it borrows.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/sandbox.h"

namespace model {

// In the order of the API. Sandboxes are counted.
enum class Dimension { cpus, memory, storage, sandboxes };
inline constexpr size_t kDimensions = 4;
// The API's field: "cpus", "memory_mb", "storage_mb", "sandboxes".
std::string_view to_string(Dimension dimension);
// As people read it: thousandths of a cpu as "2.5", megabytes and counts as they are.
std::string amount_text(Dimension dimension, int64_t amount);

using Amounts = std::array<int64_t, kDimensions>;
using Limits = std::array<std::optional<int64_t>, kDimensions>;  // nullopt: no limit

// One sandbox with these limits.
Amounts amounts_of(const Resources& resources);
void add(Amounts& sum, const Amounts& more);
void subtract(Amounts& sum, const Amounts& less);

struct TeamQuota {
  std::string name;
  Limits nominal;
  Limits borrowing;      // above nominal; nullopt: whatever the pool has
  Limits lending;        // of nominal; nullopt: all of it
  bool reclaim = false;  // may end what others borrowed when it wants its own
  [[nodiscard]] bool limited() const;
};

using Usage = std::map<std::string, Amounts, std::less<>>;  // by team; absent: nothing

enum class Obstacle { own_limit, pool, total };
struct Shortage {
  Dimension dimension = Dimension::cpus;
  Obstacle obstacle = Obstacle::own_limit;
  int64_t free = 0;  // how much could be had; below 0 where a quota was lowered
};

// The teams' quotas, found by name. Refers to `teams`, which outlive it.
class Quotas {
 public:
  Quotas(const std::vector<TeamQuota>& teams, const Limits& total);

  // nullptr: unknown.
  [[nodiscard]] const TeamQuota* find(std::string_view team) const;
  // What teams with a nominal quota put into the pool.
  [[nodiscard]] int64_t pool_size(Dimension dimension) const;
  [[nodiscard]] const Limits& total() const { return total_; }
  [[nodiscard]] const std::vector<TeamQuota>& teams() const { return teams_; }

 private:
  const std::vector<TeamQuota>& teams_;
  Limits total_;
  std::map<std::string_view, const TeamQuota*> by_name_;
  Amounts pool_size_{};
};

// What is used, and what that leaves. Refers to `quotas`, which outlive it.
class Balance {
 public:
  Balance(const Quotas& quotas, const Usage& usage);

  void add(std::string_view team, const Amounts& more);
  void subtract(std::string_view team, const Amounts& less);

  [[nodiscard]] Amounts used(std::string_view team) const;
  [[nodiscard]] int64_t pool_used(Dimension dimension) const;
  // The first thing that keeps `wants` from being admitted in that team beside what is used;
  // nullopt: it fits. A limit of the team itself is told before what others could change. An
  // unknown team has no quota.
  [[nodiscard]] std::optional<Shortage> shortage(std::string_view team, const Amounts& wants) const;
  // Whether that much more would be above the team's nominal quota in some dimension.
  [[nodiscard]] bool borrows(std::string_view team, const Amounts& wants) const;

 private:
  void change(std::string_view team, const Amounts& by, int64_t sign);

  const Quotas* quotas_;
  Usage usage_;
  Amounts used_by_all_{};
  Amounts pool_used_{};
};

// What the overview shows of one team.
struct TeamShare {
  std::string name;
  Amounts used{};
  Amounts own{};       // of its nominal quota, or all where it has none
  Amounts borrowed{};  // above it
  Amounts lent{};      // of its quota, to others: what is borrowed, in proportion to what is unused
};
std::vector<TeamShare> shares(const Quotas& quotas, const Usage& usage);

// How much of each of a team's sandboxes is borrowed: they fill the nominal quota in the order
// given (the oldest admission first), what comes later is borrowed.
std::vector<Amounts> borrowed_of_each(const TeamQuota& team, const std::vector<Amounts>& holds);

}  // namespace model
