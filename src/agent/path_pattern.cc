#include "agent/path_pattern.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "base/text.h"

namespace agent {
namespace {

// A class at the beginning of `pattern`, "[...]": how many characters it has and whether `c` is in
// it. Size 0: it has no end, so its bracket is an ordinary character.
struct Class {
  size_t size = 0;
  bool has = false;
};

Class match_class(std::string_view pattern, char c) {
  size_t i = 1;
  const bool inverted = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  i += inverted ? 1 : 0;
  const size_t first = i;
  bool has = false;
  const auto byte = [](char value) { return static_cast<unsigned char>(value); };
  const auto take = [&] {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      ++i;
    }
    return pattern[i++];
  };
  while (i < pattern.size() && (pattern[i] != ']' || i == first)) {
    const char low = take();
    char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      ++i;
      high = take();
    }
    has = has || (byte(low) <= byte(c) && byte(c) <= byte(high));
  }
  return i < pattern.size() ? Class{.size = i + 1, .has = has != inverted} : Class{};
}

// What one character of the pattern (not '*') takes of it where it fits `c`; 0 where it does not.
size_t match_one(std::string_view pattern, char c) {
  if (pattern.front() == '?') {
    return 1;
  }
  if (pattern.front() == '[') {
    const Class found = match_class(pattern, c);
    if (found.size > 0) {
      return found.has ? found.size : 0;
    }
  }
  if (pattern.front() == '\\' && pattern.size() > 1) {
    return pattern[1] == c ? 2 : 0;
  }
  return pattern.front() == c ? 1 : 0;
}

std::string without_escapes(std::string_view pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      ++i;
    }
    text += pattern[i];
  }
  return text;
}

bool has_wildcard(std::string_view pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '*' || pattern[i] == '?' || pattern[i] == '[') {
      return true;
    }
  }
  return false;
}

void add_entries(const std::string& folder, std::string_view pattern,
                 std::vector<std::string>& found) {
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> entries(
      ::opendir(folder.empty() ? "." : folder.c_str()));
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (found.size() < kPatternPathsMax && fits_pattern(pattern, entry->d_name)) {
      found.push_back(folder + entry->d_name);
    }
  }
}

}  // namespace

bool fits_pattern(std::string_view pattern, std::string_view name) {
  if (name.starts_with('.') && !pattern.starts_with('.') && !pattern.starts_with("\\.")) {
    return false;
  }
  // The last star and what it has taken so far: only that one is ever tried again.
  std::string_view behind_star;
  std::string_view star_name;
  bool has_star = false;
  while (!name.empty()) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      has_star = true;
      behind_star = pattern;
      star_name = name;
      continue;
    }
    if (const size_t size = pattern.empty() ? 0 : match_one(pattern, name.front())) {
      pattern.remove_prefix(size);
      name.remove_prefix(1);
      continue;
    }
    if (!has_star) {
      return false;
    }
    star_name.remove_prefix(1);
    name = star_name;
    pattern = behind_star;
  }
  return pattern.find_first_not_of('*') == std::string_view::npos;
}

std::vector<std::string> expand_pattern(std::string_view pattern, std::string_view home) {
  std::string begin;
  std::string_view rest = pattern;
  if (rest == "~" || rest.starts_with("~/")) {
    begin = home;
    rest.remove_prefix(1);
  }
  const std::string own_text = begin + without_escapes(rest);
  if (!has_wildcard(rest)) {
    return {own_text};
  }
  std::vector<std::string> paths{begin};
  while (!rest.empty()) {
    const size_t slashes = std::min(rest.find_first_not_of('/'), rest.size());
    const std::string_view separator = rest.substr(0, slashes);
    rest.remove_prefix(slashes);
    const std::string_view component = rest.substr(0, rest.find('/'));
    rest.remove_prefix(component.size());
    std::vector<std::string> next;
    for (const std::string& path : paths) {
      const std::string folder = base::cat(path, separator);
      if (has_wildcard(component)) {
        add_entries(folder, component, next);
        continue;
      }
      std::string whole = folder + without_escapes(component);
      struct stat file{};
      if (next.size() < kPatternPathsMax && ::lstat(whole.c_str(), &file) == 0) {
        next.push_back(std::move(whole));
      }
    }
    paths = std::move(next);
  }
  std::ranges::sort(paths);
  return paths.empty() ? std::vector{own_text} : paths;
}

}  // namespace agent
