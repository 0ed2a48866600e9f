// api/openapi.yaml as JSON, embedded when the program is built.
#pragma once

#include <string_view>

namespace server {

std::string_view openapi_json();

}  // namespace server
