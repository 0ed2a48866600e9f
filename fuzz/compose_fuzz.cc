// Compose files: whatever they say, they are compiled or refused, and what is compiled is bounded.
#include <cstddef>
#include <cstdint>
#include <string>

#include "compose/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // NUL parts the files, the last is an env file.
  const std::string text(reinterpret_cast<const char*>(data), size);
  compose::Input input{.variables = {{"SET", "1"}, {"COMPOSE_PROFILES", "dev"}}};
  size_t at = 0;
  for (size_t end = text.find('\0'); end != std::string::npos; end = text.find('\0', at)) {
    input.files.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  (at == 0 ? input.files.emplace_back() : input.env_files["e"]) = text.substr(at);
  if (const auto plan = compose::compile(input)) {
    if (plan->empty() || plan->size() > compose::kServicesMax) {
      __builtin_trap();
    }
  }
  (void)compose::needs_of(input);
  return 0;
}
