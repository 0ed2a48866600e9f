// The way out of a terminal that passes every key on: "~." at the start of a line, as ssh has it.
// Pure; one per terminal.
#pragma once

#include <string>
#include <string_view>

namespace cli {

class EscapeFilter {
 public:
  struct Filtered {
    std::string bytes;  // to pass on
    bool leave = false;
  };
  // A "~" at the start of a line is held back until the next key: "." leaves, "~" is one "~",
  // anything else follows it. Nothing behind "~." is looked at.
  Filtered feed(std::string_view typed);

 private:
  bool line_start_ = true;
  bool held_ = false;
};

}  // namespace cli
