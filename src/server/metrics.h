// Counters of the gateway in the Prometheus text format. Counted once, where routes are
// dispatched. Owned by main; loop thread only; its size is fixed by the route table.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace server {

class Metrics {
 public:
  explicit Metrics(size_t routes);
  // `route` is the row's number; past the table: requests that found none.
  void count(size_t route, int status, std::chrono::nanoseconds took);
  void connection_opened() { ++connections_; }
  void connection_closed() { --connections_; }
  // `sandboxes`: state to number; `creates` and `runs`: accepted since the start.
  [[nodiscard]] std::string text(const std::map<std::string, int64_t>& sandboxes, uint64_t creates,
                                 uint64_t runs) const;

 private:
  static constexpr size_t kClasses = 6;  // 0 (closed without an answer), 1xx ... 5xx
  static constexpr std::array<int64_t, 12> kBucketsUs{500,     1'000,     2'500,      5'000,
                                                      10'000,  25'000,    50'000,     100'000,
                                                      500'000, 2'500'000, 10'000'000, 60'000'000};
  struct Row {
    std::array<uint64_t, kClasses> by_class{};
    std::array<uint64_t, kBucketsUs.size() + 1> buckets{};
    uint64_t sum_us = 0;
    uint64_t count = 0;
  };
  std::vector<Row> rows_;
  int64_t connections_ = 0;
};

}  // namespace server
