// The bodies of POST and PATCH /sandboxes, of PUT /teams/{team} and of the routes that start and
// steer commands.
#include <cstddef>
#include <cstdint>
#include <string>

#include "service/create_request.h"
#include "service/run_request.h"
#include "service/team_document.h"

namespace {

void check_create(const wire::json::Object& object, const service::Team& team) {
  const service::Capacity capacity{.millicpus = 64'000, .memory_mb = 65'536, .storage_mb = 65'536};
  const auto request = service::parse_create(object, {.team = team, .capacity = capacity});
  if (!request) {
    return;
  }
  const model::Resources& resources = request->spec.resources;
  const bool sound =
      resources.millicpus >= service::kMillicpusMin && resources.millicpus <= capacity.millicpus &&
      resources.memory_mb >= service::kMemoryMbMin && resources.memory_mb <= capacity.memory_mb &&
      resources.storage_mb >= service::kStorageMbMin &&
      resources.storage_mb <= capacity.storage_mb && request->spec.containers.size() == 1;
  if (!sound) {
    __builtin_trap();
  }
}

// What was taken is shown as it is, and taken again as it is shown.
void check_team(const wire::json::Object& object, const service::Team& team) {
  const auto parsed = service::parse_team(object, "", team);
  if (parsed && service::parse_team(service::team_json(*parsed), "", team) != *parsed) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  const service::Team team;
  if (const auto object = wire::json::parse_object(body)) {
    check_create(*object, team);
    check_team(*object, team);
  }
  (void)service::parse_patch(body, team);
  (void)service::parse_run(body);
  (void)service::parse_exec(body);
  (void)service::parse_session(body);
  (void)service::parse_kill(body);
  (void)service::parse_resize(body);
  return 0;
}
