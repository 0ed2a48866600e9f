// The HEALTHCHECK of an image, for a service whose file says nothing of one. Pure; what the image
// wrote is hostile and is brought within bounds.
#pragma once

#include <optional>
#include <string_view>

#include "model/service.h"

namespace node {

// `more_json`: ImageConfig's. None where the image has no check, or one that cannot be run.
std::optional<model::Healthcheck> image_healthcheck(std::string_view more_json);

}  // namespace node
