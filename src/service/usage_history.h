// UsageHistory: what each ready sandbox used over the last hour, a sample every ten seconds. In
// memory only: it begins anew with the process. Owned by main; loop thread only. Bounds: an hour a
// sandbox, kSamplesOfAllMax (of 56 bytes) together; beyond it each keeps a shorter time.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "service/context.h"

namespace service {

class UsageHistory {
 public:
  static constexpr std::chrono::seconds kInterval{10};
  static constexpr size_t kSamplesMax = 360;
  // A thousand sandboxes keep their hour in 20 MB.
  static constexpr size_t kSamplesOfAllMax = 500'000;

  explicit UsageHistory(Context& context) : context_(context) {}

  // -1: not counted on its host.
  struct Sample {
    int64_t at_ms = 0;
    int64_t cpu_usec = -1;
    int64_t memory_bytes = -1;
    int64_t pids = -1;
    int64_t storage_bytes = -1;
    int64_t rx_bytes = -1;
    int64_t tx_bytes = -1;
  };
  struct Report {
    std::optional<Sample> now;   // of a ready one
    std::vector<Sample> series;  // the oldest first
  };
  // Cpu time used between two samples, in per cent of one cpu; nullopt where it is not counted.
  static std::optional<double> cpu_percent(const Sample& before, const Sample& after);

  net::Task<base::Result<Report>> report(LivePtr live);
  // Samples until it is cancelled. Spawned by main.
  net::Task<void> run();
  // One round.
  net::Task<base::Result<void>> sample();

 private:
  Context& context_;
  std::unordered_map<std::string, std::deque<Sample>> by_id_;
};

}  // namespace service
