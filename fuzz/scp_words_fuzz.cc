// The command line of an scp client, as the SSH front splits it and the agent reads it: each word
// that is understood is one for the agent's parser too, and a name that was quoted is a pattern of
// that name.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/path_pattern.h"
#include "agent/scp_message.h"
#include "ssh/words.h"

namespace {

void check_quoted(std::string_view name) {
  if (name.empty() || name.find_first_of(std::string_view("'/\0", 3)) != std::string_view::npos) {
    return;
  }
  const auto words = ssh::scp_arguments("scp -f -- '" + std::string(name) + "'");
  if (!words || words->size() != 3 || !agent::fits_pattern(words->back(), name)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto words = ssh::scp_arguments(bytes)) {
    const auto options = agent::scp::parse_options(*words);
    if (options && options->patterns.size() > words->size()) {
      std::abort();
    }
  }
  check_quoted(bytes);
  return 0;
}
