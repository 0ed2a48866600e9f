// How sessions, metrics, activity and audit rows are shown to people. Pure.
#pragma once

#include <string>

#include "base/clock.h"
#include "wire/json.h"

namespace cli {

std::string session_table(const wire::json::Array& sessions, base::WallTime now);
std::string session_details(const wire::json::Object& session, base::WallTime now);

}  // namespace cli
