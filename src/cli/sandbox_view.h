// Sandboxes, events and images as tables. Pure.
#pragma once

#include <string>

#include "base/clock.h"
#include "wire/json.h"

namespace cli {

std::string sandbox_table(const wire::json::Array& sandboxes, base::WallTime now);
std::string sandbox_details(const wire::json::Object& sandbox, base::WallTime now);
// One line of `events`, without headings so that it can be followed.
std::string event_line(const wire::json::Object& event);
std::string image_table(const wire::json::Array& images, base::WallTime now);

}  // namespace cli
