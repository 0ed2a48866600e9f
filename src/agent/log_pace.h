// Whether a session's command may go on writing, by who follows its log. Without a follower always.
// While somebody follows, the fastest live follower must not lose a byte: three quarters of the
// ring behind, it holds the command up (the last quarter is for what was on its way when its
// connection broke and is asked for again). Slower followers hold nobody up. One that took nothing
// and gave no sign of life for kStandstill, or whose connection ended kReturnTime ago, is not live.
// A follower that keeps up is given kCatchUpTime to take what was written before more is, so that
// bytes go to it straight. One that is expected counts for kFirstComeTime as if it stood where it
// will begin.
// A pure decision: time is a parameter. Owned by the session.
#pragma once

#include <cstdint>
#include <list>
#include <optional>

#include "base/clock.h"

namespace agent {

class LogPace {
 public:
  static constexpr base::Milliseconds kStandstill{10'000};
  static constexpr base::Milliseconds kReturnTime{5'000};
  static constexpr base::Milliseconds kCatchUpTime{50};
  static constexpr base::Milliseconds kFirstComeTime{30'000};
  // Followers that left and may come back; more are forgotten at once.
  static constexpr size_t kLeftMax = 64;

  struct Follower {
    uint64_t position = 0;
    base::SteadyTime last_progress;
    bool behind = false;
  };
  using Handle = std::list<Follower>::iterator;

  Handle join(uint64_t position, base::SteadyTime now);
  // It took bytes and stands at `position` now.
  void moved(Handle follower, uint64_t position, base::SteadyTime now);
  // It takes nothing now and wants to be waited for.
  void alive(Handle follower, base::SteadyTime now);
  void leave(Handle follower, base::SteadyTime now);
  // Somebody will follow from the log's beginning.
  void expect(base::SteadyTime now);
  [[nodiscard]] bool followed() const { return !followers_.empty(); }

  struct Verdict {
    uint64_t bytes_max = UINT64_MAX;  // how many the command may write now
    base::SteadyTime ask_again;       // if none, unless somebody moves before
  };
  // `end` and `capacity` are the log's.
  Verdict ask(uint64_t end, uint64_t capacity, base::SteadyTime now);

 private:
  struct Left {
    uint64_t position = 0;
    base::SteadyTime until;
  };
  [[nodiscard]] std::optional<uint64_t> fastest_live(uint64_t end, base::SteadyTime now);

  std::list<Follower> followers_;
  std::list<Left> left_;  // and who is expected
  std::optional<base::SteadyTime> catch_up_until_;
};

}  // namespace agent
