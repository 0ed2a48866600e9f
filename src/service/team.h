// What a team's sandboxes may have at most and at least.
#pragma once

#include <cstdint>

#include "store/rows.h"

namespace service {

using Team = store::Team;

// Least values of one sandbox.
inline constexpr int64_t kMillicpusMin = 10;
inline constexpr int64_t kMemoryMbMin = 16;
inline constexpr int64_t kStorageMbMin = 16;

// The most one sandbox could ever have: the host's, as its node says.
struct Capacity {
  int64_t millicpus = 0;
  int64_t memory_mb = 0;
  int64_t storage_mb = 0;
};

}  // namespace service
