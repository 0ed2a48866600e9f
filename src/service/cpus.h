// A number of cpus as the API has it (2, 0.5) and as we keep it (thousandths).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "wire/json.h"

namespace service {

// Beyond it a number is a mistake, not a wish; keeps products of it inside 64 bits.
inline constexpr double kCpusMax = 1e6;
inline constexpr int64_t kMegabytesMax = int64_t{1} << 40U;

// invalid_field when it is below 0, above kCpusMax or no multiple of 0.001.
base::Result<int64_t> millicpus_of(std::string_view field, double cpus);
wire::json::Value cpus_json(int64_t millicpus);

}  // namespace service
