// Sandboxes, events and images as tables. Pure.
#pragma once

#include <string>

#include "base/clock.h"
#include "wire/json.h"

namespace cli {

std::string sandbox_table(const wire::json::Array& sandboxes, base::WallTime now);
// "open", "none" or "allow: example.com, 192.0.2.0/24".
std::string network_text(const wire::json::Object& sandbox);
std::string sandbox_details(const wire::json::Object& sandbox, base::WallTime now);
// One line of `events`, without headings so that it can be followed.
std::string event_line(const wire::json::Object& event);
std::string image_table(const wire::json::Array& images, base::WallTime now);

}  // namespace cli
