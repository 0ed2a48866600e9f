// Counters of the requests that a gateway answers. Counted once, where routes are dispatched.
// Owned by main; loop thread only. Its size is fixed by the route table, and by kTeamsMax: requests
// of further teams count together.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"
#include "server/metrics_text.h"

namespace server {

// A label's values are a time series each: so many teams have one of their own.
inline constexpr size_t kTeamsMax = 50;
inline constexpr std::string_view kOtherTeams = "(others)";

class Metrics {
 public:
  explicit Metrics(size_t routes);
  // `route` is the row's number; past the table: requests that found none. `team` empty: of nobody
  // known.
  void count(size_t route, int status, std::chrono::nanoseconds took, std::string_view team);
  void connection_opened() { ++connections_; }
  void connection_closed() { --connections_; }
  void write(MetricsText& text) const;

 private:
  static constexpr size_t kClasses = 6;  // 0 (closed without an answer), 1xx ... 5xx
  struct Row {
    std::array<uint64_t, kClasses> by_class{};
    base::Histogram times;
  };
  std::vector<Row> rows_;
  std::map<std::string, uint64_t, std::less<>> teams_;
  int64_t connections_ = 0;
};

}  // namespace server
