#include "server/metrics_text.h"

#include "base/text.h"

namespace server {
namespace {

// Seconds with six decimals.
std::string in_seconds(uint64_t us) {
  constexpr uint64_t kUsPerSecond = 1'000'000;
  constexpr size_t kDecimals = 6;
  std::string fraction = base::cat(us % kUsPerSecond);
  fraction.insert(0, kDecimals - fraction.size(), '0');
  return base::cat(us / kUsPerSecond, ".", fraction);
}

}  // namespace

std::string label(std::string_view name, std::string_view value) {
  std::string out = base::cat(name, "=\"");
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

void MetricsText::family(std::string_view name, std::string_view help, std::string_view type) {
  name_ = base::cat(prefix_, name);
  out_ += base::cat("# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
}

void MetricsText::line(std::string_view suffix, std::string_view labels, std::string_view number) {
  out_ += name_;
  out_ += suffix;
  if (!labels.empty()) {
    out_ += base::cat("{", labels, "}");
  }
  out_ += base::cat(" ", number, "\n");
}

void MetricsText::value(std::string_view labels, int64_t number) {
  line("", labels, base::cat(number));
}

void MetricsText::seconds(std::string_view labels, uint64_t us) {
  line("", labels, in_seconds(us));
}

void MetricsText::histogram_of(std::string_view labels, const base::Histogram& times) {
  const std::string before = labels.empty() ? "" : base::cat(labels, ",");
  uint64_t sum = 0;
  for (size_t i = 0; i < base::Histogram::kEndsUs.size(); ++i) {
    sum += times.counts.at(i);
    const auto end = static_cast<uint64_t>(base::Histogram::kEndsUs.at(i));
    line("_bucket", base::cat(before, label("le", in_seconds(end))), base::cat(sum));
  }
  line("_bucket", base::cat(before, label("le", "+Inf")), base::cat(times.count));
  line("_sum", labels, in_seconds(times.sum_us));
  line("_count", labels, base::cat(times.count));
}

}  // namespace server
