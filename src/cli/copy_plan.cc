#include "cli/copy_plan.h"

#include <algorithm>

namespace cli {

namespace {

constexpr size_t kIdCharactersMax = 40;

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= kIdCharactersMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  }) && text[0] != '-';
}

}  // namespace

std::optional<RemotePath> parse_remote_path(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos || !is_id(text.substr(0, colon))) {
    return std::nullopt;
  }
  return RemotePath{std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string folder_name(std::string_view path) {
  std::string name = base_name(path);
  return name == "." || name == ".." || name == "/" ? "" : name;
}

Result<CopyPlan> plan_copy(const std::string& source, const std::string& destination,
                           CopyKind kind) {
  auto from = parse_remote_path(source);
  auto to = parse_remote_path(destination);
  if (from.has_value() == to.has_value()) {
    return base::fail_field("path", from ? "both sides are in a sandbox: copy by way of a file here"
                                         : "neither side is in a sandbox: write ID:/path for one");
  }
  CopyPlan plan{.upload = to.has_value(),
                .local = to ? source : destination,
                .remote = to ? std::move(*to) : std::move(*from)};
  if (plan.remote.path.empty()) {
    return base::fail_field("path", "the path behind ", plan.remote.id, ": is missing");
  }
  if (plan.upload && plan.remote.path.ends_with('/')) {
    if (kind == CopyKind::folder) {
      plan.remote.path += plan.local == "-" ? "" : folder_name(plan.local);
      return plan;
    }
    if (plan.local == "-") {
      return base::fail_field("path", "standard input has no name: write the file's whole path");
    }
    plan.remote.path += base_name(plan.local);
  }
  return plan;
}

}  // namespace cli
