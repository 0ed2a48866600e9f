// Keys of secrets at rest from elsewhere: an operator's command (of a key management service)
// prints them. Run once, before the loop and without a shell; blocks for at most
// kKeyCommandPatience. What it prints is neither logged nor kept but for the keys; its standard
// error is ours.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "service/master_keys.h"

namespace service {

inline constexpr base::Milliseconds kKeyCommandPatience{30'000};

// What of the command can be wrong before it runs: its program's path is absolute, and it can be
// executed.
base::Result<void> check_key_command(const std::vector<std::string>& words);
// unavailable: it does not start, fails, prints too much or no keys, or has no end; it and what it
// has started are gone then.
base::Result<KeyRing> run_key_command(const std::vector<std::string>& words,
                                      base::Milliseconds patience = kKeyCommandPatience);

}  // namespace service
