// The one form in which a compose file is refused: compose_invalid with the key as details.field
// ("services.web.privileged").
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace compose {

template <typename... Parts>
std::unexpected<base::Error> refuse(std::string_view field, const Parts&... parts) {
  return std::unexpected(base::Error{.code = base::ErrorCode::compose_invalid,
                                     .message = base::cat(field, ": ", parts...),
                                     .details = {{"field", std::string(field)}}});
}

}  // namespace compose
