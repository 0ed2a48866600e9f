// Who is admitted, who waits and who has to give back: decisions over values, the same for every
// gateway that decides on the same store. Pure.
//
// Rules:
//  1. Order in a team is strict: what was queued first is admitted first. A head that does not fit
//     blocks its own team only. A request that no quota could ever hold as things are (a quota was
//     lowered) is passed over and waits for the quota to be raised.
//  2. Of several teams' heads, those that need no borrowing come first, and among them the one that
//     was queued first. So nobody borrows what its owner is asking for.
//  3. While an owner's head does not fit into the pool or the total, nobody borrows what it needs.
//  4. A head that has waited for kPatienceMs and lacks room in the pool or the total keeps that
//     room: nobody behind it (in the order of rule 2) is admitted into it.
//  5. Where the team asks for it, borrowed sandboxes of others are ended for a head within its own
//     quota: no more than needed, the longest unused first, and only if that makes room.
//
// Nothing starves: as sandboxes end (each has a maximum lifetime), rule 4 leaves the room of the
// first in the order to it alone, so it is admitted; what is behind it moves up. Only a request
// above its team's own quota can wait for ever, while the owners use all of theirs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/quota.h"

namespace model {

// Long enough that small requests fill gaps, short against any lease.
inline constexpr int64_t kPatienceMs = 60'000;

struct QueuedRequest {
  std::string id;
  std::string team;
  int64_t ticket = 0;     // counts up over all teams in the order of arrival
  int64_t queued_ms = 0;  // since when
  Amounts wants{};
};

// An admitted sandbox that is not gone.
struct HeldSandbox {
  std::string id;
  std::string team;
  int64_t admitted_ms = 0;
  int64_t last_used_ms = 0;
  Amounts holds{};
  bool ending = false;  // it holds its quota until the engine has removed it
};

struct AdmissionState {
  std::vector<TeamQuota> teams;
  Limits total;                      // of all teams together
  Usage used;                        // with what is ending
  Usage ending;                      // of that: soon free
  std::vector<QueuedRequest> queue;  // of every team at least its oldest; any order
  // Of teams above their nominal quota; only looked at for a reclaim, may be empty otherwise.
  std::vector<HeldSandbox> held;
  int64_t now_ms = 0;
};

struct AdmissionDecision {
  std::vector<std::string> admitted;           // in this order
  std::map<std::string, std::string> reasons;  // by id: why it waits; heads and passed over ones
  struct Reclaimed {
    std::string id;
    std::string by_team;
  };
  std::vector<Reclaimed> reclaimed;  // to be ended; they hold their quota until they are gone
  // Some head could be helped by a reclaim: decide again with `held` filled in.
  bool wants_held = false;
};

AdmissionDecision decide_admission(const AdmissionState& state);

// The dimension in which a team could never hold that much, with nothing used at all.
std::optional<Shortage> never_fits(const Quotas& quotas, std::string_view team,
                                   const Amounts& wants);
// "the team's quota of cpus (5, of which 1 is free)": for a queue's reason and for quota_never.
std::string shortage_text(const Shortage& shortage, int64_t wants);

}  // namespace model
