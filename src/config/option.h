// Option: one setting of a program. A program's table of them is the only place that knows names,
// kinds, defaults and meanings; flags, variables, the file, help and documents are made of it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace config {

enum class Kind {
  text,
  path,
  address,  // IP:PORT
  number,   // a whole one, from `least` to `most`
  decimal,  // in thousandths, from `least` to `most` of them
  boolean,  // yes or no
  choice,   // one of `choices`
};

struct Option {
  std::string_view name;  // "node-socket": the flag is --node-socket, the key node-socket
  Kind kind = Kind::text;
  std::string_view standard;  // what holds where nothing is given, as a file would have it
  std::string_view value;     // what stands for the value in the help: "ADDRESS:PORT"
  std::string_view help;      // a sentence without its full stop; may have several
  std::string_view section;   // the heading that begins with this row, or ""
  std::string_view choices;   // of a choice: "debug|info|warning|error"
  int64_t least = 0;
  int64_t most = std::numeric_limits<int64_t>::max();
  bool may_be_empty = false;
  bool is_secret = false;  // never shown
};

// A word of the command line that does something else than serving.
struct Command {
  std::string_view name;
  std::string_view help;
  std::string_view words;  // one of which may come next: "status|--dry-run"
};

struct Program {
  std::string_view name;             // "sandbox-gateway"
  std::string_view summary;          // one line
  std::string_view variable_prefix;  // "SANDBOX_GATEWAY_"
  std::string_view file;             // the configuration that is read where no other is named
  std::span<const Option> options;
  std::span<const Command> commands;
};

// "--node-socket" is SANDBOX_GATEWAY_NODE_SOCKET.
std::string variable_name(const Program& program, std::string_view option);

// The value in the form that is kept ("true" is "yes"), or why it is none, as in "takes a number
// from 0 to 100, not \"x\"".
base::Result<std::string> parse_value(const Option& option, std::string_view value);

}  // namespace config
