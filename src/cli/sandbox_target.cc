#include "cli/sandbox_target.h"

#include <algorithm>

#include "cli/api.h"

namespace cli {

std::string sandbox_target(const SandboxTarget& sandbox, std::string_view suffix) {
  return sandbox_target(
      sandbox.container.empty() ? sandbox.id : base::cat(sandbox.id, "/", sandbox.container),
      suffix);
}

std::string sandbox_target(std::string_view id, std::string_view suffix) {
  return base::cat("/sandboxes/", encode_segment(id), suffix);
}

std::string request_target(std::string_view target) {
  constexpr std::string_view kSandboxes = "/sandboxes/";
  constexpr std::string_view kSlash = "%2F";
  const size_t end = std::min(target.find_first_of("/?", kSandboxes.size()), target.size());
  const size_t slash = target.find(kSlash, kSandboxes.size());
  if (!target.starts_with(kSandboxes) || slash >= end) {
    return std::string(target);
  }
  const std::string_view container =
      target.substr(slash + kSlash.size(), end - slash - kSlash.size());
  const std::string_view rest = target.substr(end);
  return base::cat(target.substr(0, slash), rest, rest.contains('?') ? "&" : "?",
                   "container=", container);
}

Result<void> check_target(std::string_view target) {
  const std::string address = request_target(target);
  const std::string_view path = std::string_view(address).substr(0, address.find('?'));
  const auto segments = base::split(path.substr(path.starts_with('/') ? 1 : 0), '/');
  for (const std::string_view name : segments) {
    if (name.empty() || name == "." || name == "..") {
      return base::fail_field("arguments", "'", name, "' is no name of anything");
    }
  }
  return {};
}

}  // namespace cli
