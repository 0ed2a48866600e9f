// The texts that are made of a program's options. Pure.
#pragma once

#include <string>

#include "config/settings.h"

namespace config {

std::string help_text(const Program& program);
// A file with every option commented out at its default.
std::string default_file(const Program& program);
// Every option with its value and where that came from.
std::string effective_text(const Settings& settings);
// The table as JSON, of which the documents are made.
std::string options_json(const Program& program);

}  // namespace config
