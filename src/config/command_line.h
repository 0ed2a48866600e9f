// What the command line of every program of ours has: --help, --version, `config ...`, commands
// and options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"

namespace config {

struct Invocation {
  std::optional<int> exit;  // set: all is done, end with it
  std::string command;      // a word of Program::commands, or "" to serve
  std::string word;         // of Command::words, or ""
  Settings settings;
};

// Reads, answers and complains on standard output and error. Exit 2: something is not right.
// `check` adds what no option alone can say (may be null).
Invocation read_command_line(const Program& program, const std::vector<std::string>& arguments,
                             const Environment& environment, Problems (*check)(const Settings&));

}  // namespace config
