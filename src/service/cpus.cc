#include "service/cpus.h"

#include <algorithm>
#include <cmath>

namespace service {

using base::fail_field;

base::Result<int64_t> millicpus_of(std::string_view field, double cpus) {
  constexpr double kThousandths = 1000;
  constexpr double kRounding = 1e-6;  // of 0.1 and the like in binary
  const double thousandths = cpus * kThousandths;
  if (!(cpus >= 0) || cpus > kCpusMax) {
    return fail_field(field, "'", field, "' must be a number from 0 to ",
                      static_cast<int64_t>(kCpusMax));
  }
  if (std::abs(thousandths - std::round(thousandths)) > kRounding * std::max(1.0, thousandths)) {
    return fail_field(field, "'", field, "' must be a multiple of 0.001");
  }
  return static_cast<int64_t>(std::llround(thousandths));
}

wire::json::Value cpus_json(int64_t millicpus) {
  constexpr int64_t kThousand = 1000;
  if (millicpus % kThousand == 0) {
    return millicpus / kThousand;
  }
  return static_cast<double>(millicpus) / static_cast<double>(kThousand);
}

}  // namespace service
