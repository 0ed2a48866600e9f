// Completion scripts for shells, made from the grammar so that they cannot drift from it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"

namespace cli {

// `shell` is bash, zsh or fish.
std::string completion_script(std::string_view shell, const std::vector<CommandInfo>& commands);

}  // namespace cli
