#include "config/file.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace config {
namespace {

constexpr size_t kKeyBytesMax = 64;

bool is_key(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kKeyBytesMax && std::ranges::all_of(text, fits);
}

}  // namespace

std::vector<Line> parse_file(std::string_view text, std::string_view name,
                             std::vector<std::string>& problems) {
  std::vector<Line> out;
  std::map<std::string, size_t, std::less<>> seen;
  size_t number = 0;
  for (std::string_view line : base::split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    line = base::trim(line);
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const size_t equals = line.find('=');
    const std::string_view key = base::trim(line.substr(0, std::min(equals, line.size())));
    if (equals == std::string_view::npos || !is_key(key)) {
      problems.push_back(base::cat(name, ":", number, ": not a line \"key = value\""));
      continue;
    }
    const auto [place, is_new] = seen.emplace(key, number);
    if (!is_new) {
      problems.push_back(
          base::cat(name, ":", number, ": ", key, ": stands in line ", place->second, " too"));
      continue;
    }
    out.push_back({.number = number,
                   .key = std::string(key),
                   .value = std::string(base::trim(line.substr(equals + 1)))});
  }
  return out;
}

}  // namespace config
