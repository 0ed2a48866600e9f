// Addresses of an issuer. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace oidc {

inline constexpr size_t kUrlBytesMax = 2048;

// https://, or http:// of this machine (127.0.0.1, [::1], localhost), where nobody listens between;
// no user, query or fragment. invalid_field (`field`) for anything else.
base::Result<void> check_url(std::string_view field, std::string_view url);
bool is_https(std::string_view url);
// "scheme://host:port" of such an address, in lower case.
std::string origin_of(std::string_view url);
// application/x-www-form-urlencoded, which is a query's form too.
std::string form_of(const std::vector<std::pair<std::string_view, std::string>>& fields);

}  // namespace oidc
