// The body of the agent's POST /run. What is accepted must be what execve can take.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/run_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto request = agent::parse_run_request(body);
  if (!request) {
    return 0;
  }
  const auto has_nul = [](std::string_view text) {
    return text.find('\0') != std::string_view::npos;
  };
  bool sound = request->argv.empty() == request->command.has_value() && !has_nul(request->cwd) &&
               !(request->command && has_nul(*request->command)) &&
               !(request->timeout && request->timeout->count() <= 0);
  for (const auto& argument : request->argv) {
    sound = sound && !has_nul(argument);
  }
  for (const auto& [name, value] : request->environment) {
    sound = sound && !name.empty() && !has_nul(name) && !has_nul(value) &&
            name.find('=') == std::string::npos;
  }
  if (!sound) {
    std::abort();
  }
  return 0;
}
