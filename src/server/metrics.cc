#include "server/metrics.h"

#include <algorithm>

#include "base/text.h"
#include "server/route.h"

namespace server {
namespace {

// Seconds with six decimals, as Prometheus wants them.
std::string seconds(uint64_t us) {
  constexpr uint64_t kUsPerSecond = 1'000'000;
  std::string fraction = base::cat(us % kUsPerSecond);
  fraction.insert(0, 6 - fraction.size(), '0');
  return base::cat(us / kUsPerSecond, ".", fraction);
}

std::string labels_of(size_t index) {
  const size_t built = routes().size();
  if (index < built) {
    return base::cat("method=\"", routes()[index].method, "\",route=\"", routes()[index].pattern,
                     "\"");
  }
  return "method=\"\",route=\"other\"";
}

}  // namespace

Metrics::Metrics(size_t routes) : rows_(routes + 1) {}

void Metrics::count(size_t route, int status, std::chrono::nanoseconds took) {
  Row& row = rows_[std::min(route, rows_.size() - 1)];
  constexpr int kClassSize = 100;
  ++row.by_class.at(std::min(static_cast<size_t>(status / kClassSize), kClasses - 1));
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  const auto* bucket = std::ranges::lower_bound(kBucketsUs, us);
  ++row.buckets.at(static_cast<size_t>(bucket - kBucketsUs.begin()));
  row.sum_us += static_cast<uint64_t>(us);
  ++row.count;
}

std::string Metrics::text(const std::map<std::string, int64_t>& sandboxes, uint64_t creates,
                          uint64_t runs) const {
  std::string out;
  out += "# TYPE sandbox_gateway_http_requests_total counter\n";
  for (size_t i = 0; i < rows_.size(); ++i) {
    for (size_t status = 0; status < kClasses; ++status) {
      if (rows_[i].by_class.at(status) > 0) {
        out += base::cat("sandbox_gateway_http_requests_total{", labels_of(i), ",status=\"", status,
                         "xx\"} ", rows_[i].by_class.at(status), "\n");
      }
    }
  }
  out += "# TYPE sandbox_gateway_http_request_duration_seconds histogram\n";
  constexpr std::string_view kName = "sandbox_gateway_http_request_duration_seconds";
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].count == 0) {
      continue;
    }
    uint64_t sum = 0;
    for (size_t bucket = 0; bucket < kBucketsUs.size(); ++bucket) {
      sum += rows_[i].buckets.at(bucket);
      out += base::cat(kName, "_bucket{", labels_of(i), ",le=\"",
                       seconds(static_cast<uint64_t>(kBucketsUs.at(bucket))), "\"} ", sum, "\n");
    }
    out += base::cat(kName, "_bucket{", labels_of(i), ",le=\"+Inf\"} ", rows_[i].count, "\n");
    out += base::cat(kName, "_sum{", labels_of(i), "} ", seconds(rows_[i].sum_us), "\n");
    out += base::cat(kName, "_count{", labels_of(i), "} ", rows_[i].count, "\n");
  }
  out += "# TYPE sandbox_gateway_connections gauge\n";
  out += base::cat("sandbox_gateway_connections ", connections_, "\n");
  out += "# TYPE sandbox_gateway_sandboxes gauge\n";
  for (const auto& [state, number] : sandboxes) {
    out += base::cat("sandbox_gateway_sandboxes{state=\"", state, "\"} ", number, "\n");
  }
  out += "# TYPE sandbox_gateway_creates_total counter\n";
  out += base::cat("sandbox_gateway_creates_total ", creates, "\n");
  out += "# TYPE sandbox_gateway_runs_total counter\n";
  out += base::cat("sandbox_gateway_runs_total ", runs, "\n");
  return out;
}

}  // namespace server
