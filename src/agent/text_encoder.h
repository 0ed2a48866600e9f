// The bytes of an output stream as the inside of a JSON string, piece by piece: a character cut
// between two pieces stays whole. Values; they hold at most three bytes between calls.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "agent/run_request.h"

namespace agent {

class TextEncoder {
 public:
  explicit TextEncoder(OutputEncoding encoding) : encoding_(encoding) {}
  // utf8: valid UTF-8 passes, NUL and controls are escaped, each maximal invalid part becomes one
  // U+FFFD. base64: whole groups of three bytes.
  void add(std::string& out, std::string_view bytes);
  // What was held back: one U+FFFD, or the padded last group.
  void finish(std::string& out);

 private:
  void add_utf8(std::string& out, std::string_view bytes);
  char* write_utf8(char* to, std::string_view bytes);
  void add_base64(std::string& out, std::string_view bytes);

  OutputEncoding encoding_;
  std::string pending_;
};

}  // namespace agent
