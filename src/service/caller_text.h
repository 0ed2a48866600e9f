// A caller as text, for what one gateway gives and another takes back: tickets, SSH tokens. What
// was given is believed, so it comes from the store or is signed; Access::look_again() says what
// the caller may do now. Pure.
#pragma once

#include <string>
#include <string_view>

#include "service/caller.h"

namespace service {

// All of a caller but where it calls from, as JSON.
std::string caller_text(const Caller& caller);
// internal: it is not what caller_text() made.
base::Result<Caller> parse_caller_text(std::string_view text);

}  // namespace service
