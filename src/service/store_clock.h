// StoreClock: the one time by which leases, lifetimes and queues are measured. It runs with the
// steady clock, so that a step of the wall clock (an administrator's, NTP's, a resumed machine's)
// by itself ends nothing: whoever measures by it first moves its deadlines by the step, then takes
// the step over. Loop thread only.
//
// What it follows is the store's clock: of a file this process' wall clock, of a database server
// the server's.
#pragma once

#include "base/clock.h"

namespace service {

// Less is what clocks are adjusted by all the time; a step of it takes nothing from a lease.
inline constexpr int64_t kClockStepMs = 2'000;

class StoreClock {
 public:
  explicit StoreClock(base::Clock& clock)
      : clock_(clock), offset_ms_(base::to_ms(clock.wall()) - steady_ms()) {}

  [[nodiscard]] int64_t now_ms() const { return steady_ms() + offset_ms_; }
  // How far the wall clock is from it now.
  [[nodiscard]] int64_t difference_ms() const { return base::to_ms(clock_.wall()) - now_ms(); }
  // Moves it.
  void take_over(int64_t difference_ms) { offset_ms_ += difference_ms; }

 private:
  [[nodiscard]] int64_t steady_ms() const {
    return std::chrono::duration_cast<base::Milliseconds>(clock_.steady().time_since_epoch())
        .count();
  }

  base::Clock& clock_;
  int64_t offset_ms_;
};

}  // namespace service
