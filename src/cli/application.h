// The CLI as a function: words in, exit code out. Knows every command; main only wires.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "cli/config.h"
#include "cli/console.h"
#include "cli/interrupt.h"

namespace cli {

int run_application(const std::vector<std::string>& words, const Environment& environment,
                    Console& console, Interrupt& interrupt, const base::Clock& clock,
                    base::Random& random);

// "error: not_found: sandbox x does not exist (request r-1)", on one line.
std::string describe_error(const base::Error& error);

}  // namespace cli
