// The bodies of POST /sandboxes, PATCH /sandboxes/{id} and POST .../run.
#include <cstddef>
#include <cstdint>
#include <string>

#include "service/create_request.h"
#include "service/run_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  const service::Team team;
  const service::Capacity capacity{.millicpus = 64'000, .memory_mb = 65'536, .storage_mb = 65'536};
  if (const auto request = service::parse_create(body, team, capacity)) {
    const model::Resources& resources = request->spec.resources;
    const bool sound =
        resources.millicpus >= service::kMillicpusMin &&
        resources.millicpus <= capacity.millicpus && resources.memory_mb >= service::kMemoryMbMin &&
        resources.memory_mb <= capacity.memory_mb &&
        resources.storage_mb >= service::kStorageMbMin &&
        resources.storage_mb <= capacity.storage_mb && request->spec.containers.size() == 1;
    if (!sound) {
      __builtin_trap();
    }
  }
  (void)service::parse_patch(body, team);
  (void)service::parse_run(body);
  return 0;
}
