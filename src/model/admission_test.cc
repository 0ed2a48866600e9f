#include "model/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/text.h"

namespace model {
namespace {

constexpr int64_t kMinute = 60'000;

Amounts cpus(int64_t millicpus) { return {millicpus, 16, 16, 1}; }

TeamQuota team(std::string name, std::optional<int64_t> nominal_cpus,
               std::optional<int64_t> borrowing = std::nullopt,
               std::optional<int64_t> lending = std::nullopt) {
  TeamQuota out{.name = std::move(name)};
  out.nominal[0] = nominal_cpus;
  out.borrowing[0] = borrowing;
  out.lending[0] = lending;
  return out;
}

QueuedRequest request(std::string id, std::string of_team, int64_t ticket, int64_t millicpus,
                      int64_t queued_ms = 0) {
  return {.id = std::move(id),
          .team = std::move(of_team),
          .ticket = ticket,
          .queued_ms = queued_ms,
          .wants = cpus(millicpus)};
}

using Ids = std::vector<std::string>;

TEST(Admission, admits_in_a_team_in_the_order_of_arrival) {
  const AdmissionState state{.teams = {team("a", 3000)},
                             .queue = {request("3", "a", 3, 1000), request("1", "a", 1, 1000),
                                       request("2", "a", 2, 1000), request("4", "a", 4, 1000)}};
  const auto decision = decide_admission(state);
  EXPECT_EQ(decision.admitted, (Ids{"1", "2", "3"}));
  EXPECT_EQ(decision.reasons.at("4"),
            "cpus: 1 wanted, 0 free of what the teams' quotas leave in the pool");
}

TEST(Admission, a_head_that_does_not_fit_blocks_its_own_team_only) {
  const AdmissionState state{.teams = {team("a", 4000, 0), team("b", 4000, 0)},
                             .used = {{"a", cpus(2000)}},
                             .queue = {request("big", "a", 1, 3000), request("small", "a", 2, 500),
                                       request("other", "b", 3, 1000)}};
  EXPECT_EQ(decide_admission(state).admitted, Ids{"other"});
}

TEST(Admission, borrows_what_others_do_not_use_and_lend) {
  AdmissionState state{.teams = {team("a", 2000), team("b", 4000, std::nullopt, 1000)},
                       .used = {{"a", cpus(2000)}},
                       .queue = {request("1", "a", 1, 1000), request("2", "a", 2, 1000)}};
  EXPECT_EQ(decide_admission(state).admitted, Ids{"1"});
  state.teams[1].lending[0] = std::nullopt;
  EXPECT_EQ(decide_admission(state).admitted, (Ids{"1", "2"}));
  state.teams[0].borrowing[0] = 500;
  EXPECT_EQ(decide_admission(state).admitted, Ids{});
  state.teams[0].borrowing[0] = 1000;
  EXPECT_EQ(decide_admission(state).admitted, Ids{"1"});
}

TEST(Admission, an_owner_comes_before_an_older_borrower) {
  const AdmissionState state{
      .teams = {team("a", 2000), team("b", 2000)},
      .used = {{"a", cpus(2000)}, {"b", cpus(1000)}},
      .queue = {request("borrower", "a", 1, 1000), request("owner", "b", 2, 1000)}};
  EXPECT_EQ(decide_admission(state).admitted, Ids{"owner"});
}

TEST(Admission, nobody_borrows_what_a_waiting_owner_needs) {
  const AdmissionState state{.teams = {team("a", 1000), team("b", 3000), team("c", 1000)},
                             .used = {{"a", cpus(3000)}, {"b", cpus(0)}},
                             .queue = {request("small", "c", 1, 500), request("more", "a", 2, 500),
                                       request("owner", "b", 3, 3000)}};
  const auto decision = decide_admission(state);
  EXPECT_EQ(decision.admitted, Ids{"small"});
  EXPECT_TRUE(decision.reasons.contains("owner"));
  EXPECT_TRUE(decision.reasons.contains("more"));
}

TEST(Admission, one_that_waited_long_keeps_the_room_that_it_lacks) {
  AdmissionState state{.teams = {team("a", std::nullopt), team("b", std::nullopt)},
                       .total = {8000},
                       .used = {{"b", cpus(6000)}},
                       .queue = {request("big", "a", 1, 8000), request("small", "b", 2, 1000)},
                       .now_ms = kPatienceMs - 1};
  EXPECT_EQ(decide_admission(state).admitted, Ids{"small"});
  state.now_ms = kPatienceMs;
  EXPECT_EQ(decide_admission(state).admitted, Ids{});
  state.used.clear();
  EXPECT_EQ(decide_admission(state).admitted, Ids{"big"});
}

TEST(Admission, what_could_never_fit_lets_others_pass) {
  const AdmissionState state{.teams = {team("a", 2000)},
                             .queue = {request("big", "a", 1, 3000), request("1", "a", 2, 1000)}};
  const auto decision = decide_admission(state);
  EXPECT_EQ(decision.admitted, Ids{"1"});
  EXPECT_TRUE(decision.reasons.at("big").starts_with("more than could ever be free"));
}

TEST(Admission, the_total_limits_teams_without_quota_too) {
  const AdmissionState state{
      .teams = {team("a", std::nullopt)},
      .total = {std::nullopt, std::nullopt, std::nullopt, 2},
      .used = {{"a", cpus(1000)}},
      .queue = {request("1", "a", 1, 9000), request("2", "a", 2, 1), request("3", "a", 3, 1)}};
  EXPECT_EQ(decide_admission(state).admitted, Ids{"1"});
}

HeldSandbox held(std::string id, std::string of_team, int64_t admitted_ms, int64_t last_used_ms,
                 int64_t millicpus) {
  return {.id = std::move(id),
          .team = std::move(of_team),
          .admitted_ms = admitted_ms,
          .last_used_ms = last_used_ms,
          .holds = cpus(millicpus)};
}

AdmissionState reclaim_state() {
  AdmissionState state{.teams = {team("a", 1000), team("b", 3000)},
                       .used = {{"a", {4000, 64, 64, 4}}},
                       .queue = {request("owner", "b", 1, 1000)},
                       .held = {held("own", "a", 1, 1, 1000), held("x", "a", 2, 30, 1000),
                                held("y", "a", 3, 20, 1000), held("z", "a", 4, 40, 1000)}};
  return state;
}

TEST(Admission, reclaims_only_where_the_team_asks_for_it) {
  auto state = reclaim_state();
  EXPECT_TRUE(decide_admission(state).reclaimed.empty());
  state.teams[1].reclaim = true;
  const auto decision = decide_admission(state);
  ASSERT_EQ(decision.reclaimed.size(), 1U);
  // Of the borrowed ones the longest unused; the one within its team's quota stays.
  EXPECT_EQ(decision.reclaimed[0].id, "y");
  EXPECT_EQ(decision.reclaimed[0].by_team, "b");
  EXPECT_TRUE(decision.admitted.empty());
}

TEST(Admission, asks_for_the_sandboxes_only_when_a_reclaim_is_wanted) {
  auto state = reclaim_state();
  state.held.clear();
  EXPECT_FALSE(decide_admission(state).wants_held);
  state.teams[1].reclaim = true;
  EXPECT_TRUE(decide_admission(state).wants_held);
}

TEST(Admission, waits_for_what_is_ending_instead_of_ending_more) {
  auto state = reclaim_state();
  state.teams[1].reclaim = true;
  state.held[2].ending = true;
  state.ending = {{"a", cpus(1000)}};
  EXPECT_TRUE(decide_admission(state).reclaimed.empty());
  state.queue.push_back(request("second", "b", 2, 1000));
  EXPECT_TRUE(decide_admission(state).reclaimed.empty());  // order: the head first
}

TEST(Admission, ends_nothing_that_would_not_help) {
  auto state = reclaim_state();
  state.teams[1].reclaim = true;
  state.total = {4000};
  state.used["c"] = cpus(2500);
  state.queue = {request("owner", "b", 1, 3000)};
  EXPECT_TRUE(decide_admission(state).reclaimed.empty());
}

TEST(Admission, ends_no_more_than_it_takes) {
  auto state = reclaim_state();
  state.teams[1].reclaim = true;
  state.held = {held("own", "a", 1, 1, 1000), held("small", "a", 2, 1, 500),
                held("big", "a", 3, 2, 2500)};
  state.queue = {request("owner", "b", 1, 2500)};
  const auto decision = decide_admission(state);
  ASSERT_EQ(decision.reclaimed.size(), 1U);
  EXPECT_EQ(decision.reclaimed[0].id, "big");
}

TEST(Admission, a_team_that_owns_nothing_has_what_others_lend) {
  AdmissionState state{.teams = {team("guest", 0), team("owner", 2000)},
                       .queue = {request("1", "guest", 1, 1000), request("2", "guest", 2, 1000),
                                 request("own", "owner", 3, 1000)}};
  // The owner comes first, though it was queued last.
  EXPECT_EQ(decide_admission(state).admitted, (Ids{"own", "1"}));
  state.teams[0].borrowing[0] = 500;
  EXPECT_EQ(decide_admission(state).admitted, Ids{"own"});
  state.teams[0].borrowing[0] = std::nullopt;
  state.teams[1].lending[0] = 0;
  const auto decision = decide_admission(state);
  EXPECT_EQ(decision.admitted, Ids{"own"});
  EXPECT_TRUE(decision.reasons.at("1").starts_with("more than could ever be free"));
  EXPECT_TRUE(never_fits(Quotas(state.teams, {}), "guest", cpus(1)));
}

TEST(Admission, what_a_team_without_quota_of_its_own_has_is_reclaimed_like_all_that_is_borrowed) {
  auto state = reclaim_state();
  state.teams = {team("a", 0), team("b", 4000)};
  state.teams[1].reclaim = true;
  const auto decision = decide_admission(state);
  ASSERT_EQ(decision.reclaimed.size(), 1U);
  EXPECT_EQ(decision.reclaimed[0].id, "own");  // the longest unused; nothing of it is its own
}

// --- random histories

// An independent statement of the rules of quota. By how much more than there is to borrow is
// borrowed; above 0 only after a quota was lowered.
int64_t overdraft(const std::vector<TeamQuota>& teams, const Usage& usage, size_t i) {
  int64_t out = 0;
  for (const TeamQuota& one : teams) {
    if (one.nominal[i]) {
      const auto found = usage.find(one.name);
      const int64_t used = found == usage.end() ? 0 : found->second[i];
      const int64_t unused = std::max<int64_t>(0, *one.nominal[i] - used);
      out += std::max<int64_t>(0, used - *one.nominal[i]);
      out -= std::min(unused, one.lending[i].value_or(unused));
    }
  }
  return out;
}

int64_t sum_of(const Usage& usage, size_t i) {
  int64_t sum = 0;
  for (const auto& [name, used] : usage) {
    sum += used[i];
  }
  return sum;
}

// A world in which sandboxes come and go at random, driven by decide_admission.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (int64_t t = pick(1, 4); t > 0; --t) {
      state_.teams.push_back(random_team(base::cat("team", t)));
    }
    for (auto& limit : state_.total) {
      limit = chance(3) ? std::optional(pick(4, 20)) : std::nullopt;
    }
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      state_.now_ms += pick(0, kMinute / 2);
      switch (pick(0, 9)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
          arrive();
          break;
        case 5:
          change_quota();
          break;
        case 6:
          cancel();
          break;
        default:
          end_one();
          break;
      }
      decide();
    }
  }

  // Nothing new comes, what runs ends: everybody who can be admitted is.
  void run_dry() {
    while (!state_.held.empty()) {
      end_one();
      decide();
    }
    const Quotas quotas(state_.teams, state_.total);
    for (const QueuedRequest& left : state_.queue) {
      EXPECT_TRUE(never_fits(quotas, left.team, left.wants)) << "stuck with nothing used";
    }
    for (const auto& [name, used] : state_.used) {
      EXPECT_EQ(used, Amounts{}) << "not released exactly once";
    }
    EXPECT_EQ(arrived_, admitted_ + cancelled_ + state_.queue.size()) << "one was lost";
  }

 private:
  int64_t pick(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  bool chance(int64_t one_in) { return pick(1, one_in) == 1; }

  TeamQuota random_team(std::string name) {
    TeamQuota out{.name = std::move(name), .reclaim = chance(2)};
    for (size_t i = 0; i < kDimensions; ++i) {
      if (!chance(3)) {
        out.nominal[i] = chance(4) ? 0 : pick(1, 8);  // many that only borrow
        out.borrowing[i] = chance(2) ? std::optional(pick(0, 4)) : std::nullopt;
        out.lending[i] = chance(2) ? std::optional(pick(0, 8)) : std::nullopt;
      }
    }
    return out;
  }

  const TeamQuota& some_team() {
    return state_
        .teams[static_cast<size_t>(pick(0, static_cast<int64_t>(state_.teams.size()) - 1))];
  }

  void arrive() {
    ++arrived_;
    ++ticket_;
    state_.queue.push_back({.id = base::cat("s", ticket_),
                            .team = some_team().name,
                            .ticket = ticket_,
                            .queued_ms = state_.now_ms,
                            .wants = {pick(1, 6), pick(1, 3), pick(0, 2), 1}});
  }

  void change_quota() {
    auto& changed =
        state_.teams[static_cast<size_t>(pick(0, static_cast<int64_t>(state_.teams.size()) - 1))];
    changed = random_team(changed.name);
  }

  void cancel() {
    if (!state_.queue.empty()) {
      ++cancelled_;
      state_.queue.erase(state_.queue.begin() +
                         pick(0, static_cast<int64_t>(state_.queue.size()) - 1));
    }
  }

  void end_one() {
    if (state_.held.empty()) {
      return;
    }
    const auto which = state_.held.begin() + pick(0, static_cast<int64_t>(state_.held.size()) - 1);
    subtract(state_.used[which->team], which->holds);
    if (which->ending) {
      subtract(state_.ending[which->team], which->holds);
    }
    state_.held.erase(which);
  }

  void decide() {
    const AdmissionState before = state_;
    const AdmissionDecision decision = decide_admission(state_);
    for (const std::string& id : decision.admitted) {
      admit(id);
    }
    check_order(before, decision);
    check_not_stuck(decision);
    for (const auto& reclaimed : decision.reclaimed) {
      end_borrowed(before, reclaimed);
    }
  }

  void admit(const std::string& id) {
    const auto found = std::ranges::find(state_.queue, id, &QueuedRequest::id);
    ASSERT_NE(found, state_.queue.end()) << "admitted twice";
    ++admitted_;
    const Usage before = state_.used;
    add(state_.used[found->team], found->wants);
    const auto of = std::ranges::find(state_.teams, found->team, &TeamQuota::name);
    for (size_t i = 0; i < kDimensions; ++i) {
      if (found->wants[i] == 0) {
        continue;
      }
      const auto& total = state_.total[i];
      EXPECT_TRUE(!total || sum_of(state_.used, i) <= *total) << "above the total";
      if (of->nominal[i] && of->borrowing[i]) {
        EXPECT_LE(state_.used[of->name][i], *of->nominal[i] + *of->borrowing[i]);
      }
      const int64_t now = overdraft(state_.teams, state_.used, i);
      EXPECT_TRUE(now <= 0 || now <= overdraft(state_.teams, before, i)) << "above the pool";
    }
    state_.held.push_back({.id = id,
                           .team = found->team,
                           .admitted_ms = ++admissions_,
                           .last_used_ms = pick(0, 1000),
                           .holds = found->wants});
    state_.queue.erase(found);
  }

  // What is admitted of a team is the beginning of its queue, but for what could never fit.
  static void check_order(const AdmissionState& before, const AdmissionDecision& decision) {
    const Quotas quotas(before.teams, before.total);
    const std::set<std::string> admitted(decision.admitted.begin(), decision.admitted.end());
    std::set<std::string> waits;
    std::vector<QueuedRequest> queue = before.queue;
    std::ranges::sort(queue, {}, &QueuedRequest::ticket);
    for (const QueuedRequest& one : queue) {
      if (admitted.contains(one.id)) {
        EXPECT_FALSE(waits.contains(one.team)) << "overtaken in its own team";
      } else if (!never_fits(quotas, one.team, one.wants)) {
        waits.insert(one.team);
      }
    }
  }

  // A head that still fits waits only where another one lacks room that must be kept for it.
  void check_not_stuck(const AdmissionDecision& decision) const {
    const Quotas quotas(state_.teams, state_.total);
    const Balance balance(quotas, state_.used);
    std::map<std::string, const QueuedRequest*> heads;
    for (const QueuedRequest& one : state_.queue) {
      if (!never_fits(quotas, one.team, one.wants)) {
        const QueuedRequest*& head = heads[one.team];
        head = head == nullptr || one.ticket < head->ticket ? &one : head;
      }
    }
    const auto lacks_room = [&](const QueuedRequest* other) {
      const auto shortage = balance.shortage(other->team, other->wants);
      const bool owner = !balance.borrows(other->team, other->wants);
      const bool overdue = state_.now_ms - other->queued_ms >= kPatienceMs;
      return shortage && shortage->obstacle != Obstacle::own_limit && (owner || overdue);
    };
    for (const auto& [name, head] : heads) {
      EXPECT_TRUE(decision.reasons.contains(head->id)) << "waits without a reason";
      if (!balance.shortage(head->team, head->wants)) {
        EXPECT_TRUE(std::ranges::any_of(heads, [&](const auto& entry) {
          return entry.second != head && lacks_room(entry.second);
        })) << "waits though it fits";
      }
    }
  }

  void end_borrowed(const AdmissionState& before, const AdmissionDecision::Reclaimed& reclaimed) {
    const auto found = std::ranges::find(state_.held, reclaimed.id, &HeldSandbox::id);
    ASSERT_NE(found, state_.held.end());
    EXPECT_FALSE(found->ending) << "ended twice";
    EXPECT_NE(found->team, reclaimed.by_team);
    EXPECT_TRUE(std::ranges::any_of(before.held, [&](const HeldSandbox& one) {
      return one.id == reclaimed.id;
    })) << "ended what was admitted in the same breath";
    const Quotas quotas(state_.teams, state_.total);
    const TeamQuota& quota = *quotas.find(found->team);
    bool borrows = false;
    for (size_t i = 0; i < kDimensions; ++i) {
      borrows = borrows || (quota.nominal[i] && state_.used[found->team][i] > *quota.nominal[i]);
    }
    EXPECT_TRUE(borrows) << "ended one of a team within its quota";
    found->ending = true;
    add(state_.ending[found->team], found->holds);
  }

  std::mt19937_64 random_;
  AdmissionState state_;
  int64_t ticket_ = 0;
  int64_t admissions_ = 0;
  size_t arrived_ = 0;
  size_t admitted_ = 0;
  size_t cancelled_ = 0;
};

TEST(Admission, holds_its_rules_in_random_histories) {
  constexpr uint64_t kHistories = 3000;
  constexpr int kSteps = 60;
  for (uint64_t seed = 1; seed <= kHistories && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(base::cat("seed ", seed));
    World world(seed);
    world.run(kSteps);
    world.run_dry();
  }
}

// Whoever is within the team's own quota is admitted although others never stop asking.
TEST(Admission, nobody_starves_beside_an_endless_stream_of_others) {
  constexpr uint64_t kHistories = 200;
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    SCOPED_TRACE(base::cat("seed ", seed));
    std::mt19937_64 random(seed);
    AdmissionState state{
        .teams = {team("big", seed % 2 == 0 ? std::optional<int64_t>(8) : std::nullopt),
                  team("x", std::nullopt), team("y", 2)},
        .total = {8},
        .used = {{"x", cpus(4)}, {"y", cpus(4)}}};
    std::vector<std::pair<std::string, int64_t>> running{{"x", 4}, {"y", 4}};
    state.queue.push_back(request("big", "big", 1, 8));
    int64_t ticket = 1;
    bool admitted = false;
    for (int step = 0; step < 100 && !admitted; ++step) {
      state.now_ms += kMinute / 4;
      for (const char* name : {"x", "y"}) {
        ++ticket;
        state.queue.push_back(request(base::cat(ticket), name, ticket,
                                      1 + static_cast<int64_t>(random() % 2), state.now_ms));
      }
      if (!running.empty()) {
        const auto ends = running.begin() + static_cast<ptrdiff_t>(random() % running.size());
        subtract(state.used[ends->first], cpus(ends->second));
        running.erase(ends);
      }
      for (const std::string& id : decide_admission(state).admitted) {
        const auto found = std::ranges::find(state.queue, id, &QueuedRequest::id);
        admitted = admitted || id == "big";
        add(state.used[found->team], found->wants);
        running.emplace_back(found->team, found->wants[0]);
        state.queue.erase(found);
      }
    }
    EXPECT_TRUE(admitted);
  }
}

TEST(Quota, shares_show_own_borrowed_and_lent_that_sum_up) {
  const std::vector<TeamQuota> teams{team("a", 2000), team("b", 4000), team("c", 2000, 0, 500),
                                     team("free", std::nullopt)};
  const Quotas quotas(teams, {});
  const auto out = shares(quotas, {{"a", cpus(5000)}, {"b", cpus(1000)}, {"free", cpus(7000)}});
  EXPECT_EQ(out[0].own[0], 2000);
  EXPECT_EQ(out[0].borrowed[0], 3000);
  EXPECT_EQ(out[1].lent[0], 2571);  // 3000 of what b (3000) and c (500) do not use
  EXPECT_EQ(out[2].lent[0], 429);
  EXPECT_EQ(out[3].own[0], 7000);
  EXPECT_EQ(out[3].borrowed[0], 0);
}

TEST(Quota, amounts_read_as_people_write_them) {
  EXPECT_EQ(amount_text(Dimension::cpus, 2000), "2");
  EXPECT_EQ(amount_text(Dimension::cpus, 2050), "2.05");
  EXPECT_EQ(amount_text(Dimension::cpus, -500), "-0.5");
  EXPECT_EQ(amount_text(Dimension::memory, 512), "512");
}

}  // namespace
}  // namespace model
