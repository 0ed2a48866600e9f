#include "server/route.h"

#include <algorithm>
#include <optional>

namespace server {
namespace {

// The segments in braces when `path` fits `pattern`; still percent-encoded.
std::optional<std::vector<std::string_view>> fit(std::string_view pattern, std::string_view path) {
  std::vector<std::string_view> out;
  while (!pattern.empty()) {
    const size_t pattern_end = std::min(pattern.find('/', 1), pattern.size());
    const size_t path_end = std::min(path.find('/', 1), path.size());
    const std::string_view wanted = pattern.substr(0, pattern_end);
    const std::string_view given = path.substr(0, path_end);
    if (wanted.starts_with("/{")) {
      if (given.size() < 2) {
        return std::nullopt;
      }
      out.push_back(given.substr(1));
    } else if (wanted != given) {
      return std::nullopt;
    }
    pattern.remove_prefix(pattern_end);
    path.remove_prefix(path_end);
  }
  return path.empty() ? std::optional(out) : std::nullopt;
}

Result<std::vector<std::string>> decode(const std::vector<std::string_view>& segments) {
  std::vector<std::string> out;
  for (const std::string_view segment : segments) {
    auto text = base::percent_decode(segment);
    if (!text || !base::is_utf8(*text)) {
      return base::fail(ErrorCode::malformed, "broken percent-encoding in the path");
    }
    out.push_back(std::move(*text));
  }
  return out;
}

}  // namespace

Result<Match> find_route(std::string_view method, std::string_view path) {
  std::vector<std::string_view> allowed;
  size_t index = 0;
  for (const auto table : {routes(), routes_not_built()}) {
    for (const Route& route : table) {
      const auto segments = fit(route.pattern, path);
      if (segments && (route.method == method || (method == "HEAD" && route.method == "GET"))) {
        ASSIGN_OR_RETURN(auto decoded, decode(*segments));
        return Match{.route = &route, .index = index, .segments = std::move(decoded)};
      }
      if (segments) {
        allowed.push_back(route.method);
        if (route.method == "GET") {
          allowed.emplace_back("HEAD");
        }
      }
      ++index;
    }
  }
  if (allowed.empty()) {
    return base::fail(ErrorCode::not_found, "there is no such route");
  }
  std::string allow;
  for (const std::string_view name : allowed) {
    allow += allow.empty() ? "" : ", ";
    allow += name;
  }
  auto error = base::fail(ErrorCode::method_not_allowed, "the route does not take this method");
  error.error().details.emplace_back("allow", allow);
  return error;
}

}  // namespace server
