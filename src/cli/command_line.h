// The CLI's grammar: words to options, help texts, and the facts the completion scripts are made
// from. Pure; every mistake is an invalid_field error with one line that says what to write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/options.h"

namespace cli {

struct ParsedCommandLine {
  GlobalOptions global;
  Invocation invocation;
};

// `words` without the program's name.
Result<ParsedCommandLine> parse_command_line(const std::vector<std::string>& words);

// "512", "512m", "2g" (mebibytes without a unit) in MB.
Result<int64_t> parse_megabytes(std::string_view text);
// "90", "90s", "30m", "2h", "1d" in seconds.
Result<int64_t> parse_seconds(std::string_view text);
// "80" (the same port here) or "8080:80", or ":80" for a free one here.
Result<PortPair> parse_port_pair(std::string_view text);

// For completion scripts.
struct OptionInfo {
  std::vector<std::string> names;  // "--output", "-o"
  std::string description;
  bool takes_value = false;
  std::vector<std::string> choices;  // of the value, when closed
};
struct CommandInfo {
  std::string name;  // "create", "image pull"
  std::string description;
  std::vector<OptionInfo> options;
  bool takes_id = false;  // a sandbox's id comes first
};
std::vector<CommandInfo> describe_commands();

}  // namespace cli
