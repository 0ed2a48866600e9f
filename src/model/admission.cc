#include "model/admission.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.h"

namespace model {
namespace {

// A team's queue and how far it has come.
struct Line {
  std::vector<const QueuedRequest*> requests;  // the oldest first
  size_t next = 0;
};

class Decider {
 public:
  explicit Decider(const AdmissionState& state);
  AdmissionDecision run();

 private:
  void admit_heads(bool borrowing);
  // The head of a line that could ever fit; nullptr: none is left.
  const QueuedRequest* head(Line& line);
  void hold_room(const QueuedRequest& request, bool borrowing);
  void reclaim_for(const QueuedRequest& request);
  [[nodiscard]] std::vector<const HeldSandbox*> victims_for(const QueuedRequest& request) const;
  [[nodiscard]] const HeldSandbox* next_victim(const QueuedRequest& request, const Balance& balance,
                                               const std::set<std::string_view>& gone) const;

  const AdmissionState& state_;
  Quotas quotas_;
  Balance balance_;  // what is used
  Balance kept_;     // and what blocked heads keep for themselves
  Balance planned_;  // what will be used once all that is ending is gone
  std::map<std::string_view, Line> lines_;
  std::vector<const QueuedRequest*> blocked_owners_;  // by the pool or the total, in their order
  std::set<std::string_view> ending_;                 // by this decision
  AdmissionDecision decision_;
};

Decider::Decider(const AdmissionState& state)
    : state_(state),
      quotas_(state.teams, state.total),
      balance_(quotas_, state.used),
      kept_(balance_),
      planned_(balance_) {
  for (const auto& [team, amounts] : state.ending) {
    planned_.subtract(team, amounts);
  }
  for (const QueuedRequest& request : state.queue) {
    lines_[request.team].requests.push_back(&request);
  }
  for (auto& [team, line] : lines_) {
    std::ranges::sort(line.requests, {}, &QueuedRequest::ticket);
  }
}

const QueuedRequest* Decider::head(Line& line) {
  for (; line.next < line.requests.size(); ++line.next) {
    const QueuedRequest& request = *line.requests[line.next];
    const auto never = never_fits(quotas_, request.team, request.wants);
    if (!never) {
      return &request;
    }
    decision_.reasons[request.id] =
        base::cat("more than could ever be free now: ",
                  shortage_text(*never, request.wants[static_cast<size_t>(never->dimension)]));
  }
  return nullptr;
}

void Decider::hold_room(const QueuedRequest& request, bool borrowing) {
  const bool overdue = state_.now_ms - request.queued_ms >= kPatienceMs;
  if (overdue) {
    kept_.add(request.team, request.wants);
  } else if (!borrowing) {
    blocked_owners_.push_back(&request);  // keeps it from those who borrow
  }
}

// Heads of one kind, the first queued first.
void Decider::admit_heads(bool borrowing) {
  const auto later = [](const QueuedRequest* a, const QueuedRequest* b) {
    return a->ticket > b->ticket;
  };
  std::vector<const QueuedRequest*> heads;
  const auto push = [&](Line& line, bool any) {
    const QueuedRequest* next = head(line);
    if (next != nullptr && (any || balance_.borrows(next->team, next->wants) == borrowing)) {
      heads.push_back(next);
      std::ranges::push_heap(heads, later);
    }
  };
  for (auto& [team, line] : lines_) {
    push(line, false);
  }
  while (!heads.empty()) {
    std::ranges::pop_heap(heads, later);
    const QueuedRequest& request = *heads.back();
    heads.pop_back();
    auto shortage = balance_.shortage(request.team, request.wants);
    const bool room_is_kept = !shortage && kept_.shortage(request.team, request.wants).has_value();
    if (!shortage && !room_is_kept) {
      decision_.admitted.push_back(request.id);
      for (Balance* balance : {&balance_, &kept_, &planned_}) {
        balance->add(request.team, request.wants);
      }
      Line& line = lines_[request.team];
      ++line.next;
      push(line, borrowing);  // behind one that borrows all come in their turn
      continue;
    }
    decision_.reasons[request.id] =
        shortage ? shortage_text(*shortage, request.wants[static_cast<size_t>(shortage->dimension)])
                 : "the room is kept for a sandbox that comes before it";
    if (shortage && shortage->obstacle == Obstacle::own_limit) {
      continue;
    }
    hold_room(request, borrowing);
    if (!borrowing) {
      reclaim_for(request);
    }
  }
}

// What ends next for `request` among the borrowed ones of other teams: the longest unused.
const HeldSandbox* Decider::next_victim(const QueuedRequest& request, const Balance& balance,
                                        const std::set<std::string_view>& gone) const {
  const auto shortage = balance.shortage(request.team, request.wants);
  const auto lacking = static_cast<size_t>(shortage->dimension);
  std::map<std::string_view, std::vector<const HeldSandbox*>> by_team;
  for (const HeldSandbox& held : state_.held) {
    if (held.team != request.team && !held.ending && !gone.contains(held.id)) {
      by_team[held.team].push_back(&held);
    }
  }
  const HeldSandbox* oldest = nullptr;
  for (auto& [team, sandboxes] : by_team) {
    const TeamQuota* quota = quotas_.find(team);
    if (quota == nullptr) {
      continue;
    }
    std::ranges::sort(sandboxes, {},
                      [](const HeldSandbox* one) { return std::tie(one->admitted_ms, one->id); });
    std::vector<Amounts> holds;
    for (const HeldSandbox* one : sandboxes) {
      holds.push_back(one->holds);
    }
    const auto borrowed = borrowed_of_each(*quota, holds);
    for (size_t i = 0; i < sandboxes.size(); ++i) {
      const HeldSandbox* one = sandboxes[i];
      if (borrowed[i][lacking] > 0 &&
          (oldest == nullptr ||
           std::tie(one->last_used_ms, one->id) < std::tie(oldest->last_used_ms, oldest->id))) {
        oldest = one;
      }
    }
  }
  return oldest;
}

std::vector<const HeldSandbox*> Decider::victims_for(const QueuedRequest& request) const {
  Balance balance = planned_;
  std::set<std::string_view> gone = ending_;
  std::vector<const HeldSandbox*> victims;
  while (balance.shortage(request.team, request.wants)) {
    const HeldSandbox* victim = next_victim(request, balance, gone);
    if (victim == nullptr) {
      return {};
    }
    balance.subtract(victim->team, victim->holds);
    gone.insert(victim->id);
    victims.push_back(victim);
  }
  // A later one may have made an earlier one unneeded: the longest used may stay first.
  for (size_t i = victims.size(); i-- > 0;) {
    balance.add(victims[i]->team, victims[i]->holds);
    if (balance.shortage(request.team, request.wants)) {
      balance.subtract(victims[i]->team, victims[i]->holds);
    } else {
      victims.erase(victims.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return victims;
}

void Decider::reclaim_for(const QueuedRequest& request) {
  const TeamQuota* quota = quotas_.find(request.team);
  if (quota == nullptr || !quota->reclaim || !quota->limited()) {
    return;
  }
  if (planned_.shortage(request.team, request.wants)) {
    decision_.wants_held = true;
    for (const HeldSandbox* victim : victims_for(request)) {
      decision_.reclaimed.push_back({.id = victim->id, .by_team = request.team});
      ending_.insert(victim->id);
      planned_.subtract(victim->team, victim->holds);
    }
  }
  if (!planned_.shortage(request.team, request.wants)) {
    planned_.add(request.team, request.wants);  // what is ending is for this one
  }
}

AdmissionDecision Decider::run() {
  admit_heads(false);
  for (const QueuedRequest* owner : blocked_owners_) {
    kept_.add(owner->team, owner->wants);
  }
  admit_heads(true);
  return std::move(decision_);
}

}  // namespace

AdmissionDecision decide_admission(const AdmissionState& state) { return Decider(state).run(); }

std::optional<Shortage> never_fits(const Quotas& quotas, std::string_view team,
                                   const Amounts& wants) {
  return Balance(quotas, {}).shortage(team, wants);
}

std::string shortage_text(const Shortage& shortage, int64_t wants) {
  const Dimension dimension = shortage.dimension;
  std::string_view where = "the team's quota and what it may borrow";
  if (shortage.obstacle == Obstacle::pool) {
    where = "what the teams' quotas leave in the pool";
  } else if (shortage.obstacle == Obstacle::total) {
    where = "the total of all teams";
  }
  return base::cat(to_string(dimension), ": ", amount_text(dimension, wants), " wanted, ",
                   amount_text(dimension, std::max<int64_t>(0, shortage.free)), " free of ", where);
}

}  // namespace model
