// The bodies of the session routes and the first line of POST /exec. What is accepted must be
// within its documented bounds and what execve can take.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/run_request.h"
#include "agent/session_request.h"

namespace {

bool is_side(uint16_t side) { return side >= 1 && side <= agent::kWindowSideMax; }

bool is_sound(const agent::CommandRequest& request) {
  const auto has_nul = [](std::string_view text) {
    return text.find('\0') != std::string_view::npos;
  };
  return request.argv.empty() != !request.command.has_value() && !has_nul(request.cwd) &&
         request.program.empty() && std::ranges::none_of(request.argv, has_nul);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  if (const auto exec = agent::parse_exec_request(body); exec && !is_sound(*exec)) {
    std::abort();
  }
  if (const auto session = agent::parse_session_request(body)) {
    const bool named = session->name.empty() || agent::check_session_name(session->name);
    const bool sized = !session->terminal ||
                       (is_side(session->terminal->columns) && is_side(session->terminal->rows));
    if (!is_sound(*session) || !named || !sized || session->log_bytes < agent::kLogBytesMin ||
        session->log_bytes > agent::kLogBytesMax) {
      std::abort();
    }
  }
  if (const auto window = agent::parse_window_size(body);
      window && !(is_side(window->columns) && is_side(window->rows))) {
    std::abort();
  }
  if (const auto number = agent::parse_kill(body); number && (*number < 1 || *number > 64)) {
    std::abort();
  }
  return 0;
}
