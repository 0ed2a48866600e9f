// The cookies of a sign-in by browser: their names and attributes, and how a session's is taken
// from a request. A page of another origin can make a browser send a cookie, but not a header of
// its own: the session counts only together with kSessionHeader. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/application.h"

namespace server {

inline constexpr std::string_view kSessionHeader = "x-sandbox-session";

enum class Cookie { attempt, session };

// The value that the request has for it; nullopt: none. unauthenticated where it has several: a
// neighbour of our domain may have set one of them.
Result<std::optional<std::string>> find_cookie(const wire::http::Request& request, Cookie cookie,
                                               bool is_secure);
// A value of Set-Cookie. `seconds` 0 takes it back.
std::string set_cookie(Cookie cookie, std::string_view value, int64_t seconds, bool is_secure);

// unauthenticated without kSessionHeader: 1, and where the browser says that another site asks.
Result<void> check_own_page(const wire::http::Request& request);
// The caller of the request's session; nullopt: it has none, or nobody can sign in here.
Task<Result<std::optional<service::Caller>>> session_caller(Application& application,
                                                            const wire::http::Request& request);

}  // namespace server
