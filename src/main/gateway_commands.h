// What sandbox-gateway does besides serving: work on its store. Each gives the exit code.
#pragma once

#include <string>
#include <vector>

#include "config/command_line.h"
#include "config/settings.h"

namespace gateway_commands {

// `migrate [status|--dry-run|forget-key]`.
int run_migrate(const config::Settings& settings, std::string_view word);
// `keys [list|rotate|retire]`.
int run_keys(const config::Settings& settings, std::string_view word);
// `audit verify [--noted ID:HASH] [options]` and `audit head [options]`: on the store itself.
int run_audit(std::vector<std::string> arguments, const config::Environment& environment);

}  // namespace gateway_commands
