// Time as a parameter: the real clock in main, a fake one in tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace base {

using Milliseconds = std::chrono::milliseconds;
// Milliseconds since 1970 UTC: what is stored and shown.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Milliseconds>;
using SteadyTime = std::chrono::steady_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual WallTime wall() const = 0;
  [[nodiscard]] virtual SteadyTime steady() const = 0;
};

class RealClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override {
    return std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now());
  }
  [[nodiscard]] SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
};

class FakeClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override { return wall_; }
  [[nodiscard]] SteadyTime steady() const override { return steady_; }
  void advance(Milliseconds by) {
    wall_ += by;
    steady_ += by;
  }
  // Somebody sets the wall clock.
  void step(Milliseconds by) { wall_ += by; }

 private:
  WallTime wall_{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  SteadyTime steady_{std::chrono::hours{1}};
};

// RFC 3339 in UTC with milliseconds: "2026-01-31T09:05:07.123Z".
std::string rfc3339(WallTime time);
// The other way: any offset, any fraction (what is below a millisecond is dropped), UTC where no
// offset is given, years 1970 to 9999; nullopt for what is not such a time.
std::optional<WallTime> parse_rfc3339(std::string_view text);
inline int64_t to_ms(WallTime time) { return time.time_since_epoch().count(); }
inline WallTime from_ms(int64_t ms) { return WallTime{Milliseconds{ms}}; }

}  // namespace base
