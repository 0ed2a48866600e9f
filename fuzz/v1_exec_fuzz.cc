// The body of /api/v1's exec: what is taken becomes JSON that the agent's route takes too.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "service/v1_exec_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto request = service::parse_v1_exec({reinterpret_cast<const char*>(data), size});
  if (request && !service::parse_run(request->body)) {
    std::abort();
  }
  return 0;
}
