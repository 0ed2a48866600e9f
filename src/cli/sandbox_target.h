// A sandbox, or one container of it, in the addresses of requests. Values only.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace cli {

using base::Result;

// A sandbox, or one of its containers.
struct SandboxTarget {
  std::string id;
  std::string container = {};  // empty: main
};

// "/sandboxes/ID" + suffix, with the id percent-encoded; a container stands behind the id until the
// address is whole (request_target).
std::string sandbox_target(const SandboxTarget& sandbox, std::string_view suffix = "");
std::string sandbox_target(std::string_view id, std::string_view suffix = "");
// As it is sent: of "/sandboxes/ID%2FCONTAINER/…" the container is a parameter.
std::string request_target(std::string_view target);
// Refuses one with an empty name, "." or ".." in its path: what resolves addresses on the way
// (libcurl, proxies) would make a request about something else of it.
Result<void> check_target(std::string_view target);

}  // namespace cli
