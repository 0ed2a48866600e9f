// Entity tags in the conditions of requests (RFC 9110 13.1.2).
#pragma once

#include <string_view>

namespace wire::http {

// Whether If-None-Match names this tag: a list, "*" for any, compared without a leading W/.
bool names_tag(std::string_view if_none_match, std::string_view tag);

}  // namespace wire::http
