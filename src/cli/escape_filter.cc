#include "cli/escape_filter.h"

namespace cli {

EscapeFilter::Filtered EscapeFilter::feed(std::string_view typed) {
  Filtered out;
  for (const char key : typed) {
    if (held_) {
      held_ = false;
      if (key == '.') {
        out.leave = true;
        return out;
      }
      out.bytes += '~';
      line_start_ = false;
      if (key == '~') {
        continue;
      }
    } else if (line_start_ && key == '~') {
      held_ = true;
      continue;
    }
    out.bytes += key;
    line_start_ = key == '\r' || key == '\n';
  }
  return out;
}

}  // namespace cli
