// The containers of a sandbox: which one a request is to, and how each is. Loop thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "service/context.h"
#include "service/live_sandbox.h"

namespace service {

// By its name; "" and "main" are the first one. invalid_field names another.
base::Result<size_t> container_number(const SandboxRow& row, std::string_view name);

// Whose session has that id; main's for an id that does not say, and for a name.
size_t container_of_session(const SandboxRow& row, std::string_view session);

// What an agent says of its container's own command.
struct ServiceStatus {
  std::string state;   // waiting | running | restarting | exited | idle
  std::string health;  // none | starting | healthy | unhealthy
  std::optional<int64_t> exit_code;
  int64_t restarts = 0;
  int64_t version = 0;
  std::string output;        // the end of what it wrote, when it has ended
  std::string check_output;  // of the last check

  [[nodiscard]] bool is_ready() const {
    return (state == "running" || state == "idle") && (health == "none" || health == "healthy");
  }
};
base::Result<ServiceStatus> parse_service_status(const wire::json::Object& object);

// Of each container of a ready sandbox of several, nothing for one whose agent does not say.
net::Task<std::vector<std::optional<ServiceStatus>>> container_states(Context& context,
                                                                      SandboxRow row);

}  // namespace service
