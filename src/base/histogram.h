// How often something took how long: counts in fixed steps of time, as Prometheus wants them.
// A value of fixed size; whoever observes owns it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace base {

struct Histogram {
  // Upper ends in microseconds; from a small request to a long pull.
  static constexpr std::array<int64_t, 14> kEndsUs{
      500,     1'000,   2'500,     5'000,     10'000,     25'000,     50'000,
      100'000, 500'000, 1'000'000, 2'500'000, 10'000'000, 60'000'000, 600'000'000};

  void observe(std::chrono::nanoseconds took) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    const auto* end = std::ranges::lower_bound(kEndsUs, us);
    ++counts.at(static_cast<size_t>(end - kEndsUs.begin()));
    sum_us += static_cast<uint64_t>(std::max<int64_t>(us, 0));
    ++count;
  }

  std::array<uint64_t, kEndsUs.size() + 1> counts{};  // the last: longer than all
  uint64_t sum_us = 0;
  uint64_t count = 0;
};

}  // namespace base
