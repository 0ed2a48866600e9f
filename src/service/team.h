// What a team's sandboxes may have. Until teams are a feature there is one, `default`, with the
// built-in values.
#pragma once

#include <cstdint>
#include <string>

namespace service {

struct Team {
  std::string name = "default";
  int64_t lease_sec = 1'800;
  int64_t max_lifetime_sec = 86'400;
  int64_t start_max_sec = 1'800;
  int64_t storage_mb = 1'024;  // when not asked for
  int64_t pids = 1'024;
  bool local_images = false;  // "dir:/..." and "tar:/..."
};

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
