// The configuration file: UTF-8 lines `key = value`. A line that begins with # and an empty one
// mean nothing; the value is the rest of the line without blanks at its ends, with no quoting and
// no continuation. A key stands once. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace config {

// Far above a file with every key and a page of comments each.
constexpr size_t kFileBytesMax = 1024UL * 1024;

struct Line {
  size_t number = 0;  // from 1
  std::string key;
  std::string value;
};

// The lines that have a key, in order. What is malformed becomes a problem "FILE:12: ...", and its
// line is left out. `name` is the file's for those.
std::vector<Line> parse_file(std::string_view text, std::string_view name,
                             std::vector<std::string>& problems);

}  // namespace config
