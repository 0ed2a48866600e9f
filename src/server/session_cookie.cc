#include "server/session_cookie.h"

#include "service/browser_sign_in.h"

namespace server {
namespace {

// The prefix makes browsers take it only from us, over HTTPS, for this host (RFC 6265bis 4.1.3).
std::string name_of(Cookie cookie, bool is_secure) {
  return base::cat(is_secure ? "__Host-" : "", "sandbox_",
                   cookie == Cookie::session ? "session" : "login");
}

}  // namespace

Result<std::optional<std::string>> find_cookie(const wire::http::Request& request, Cookie cookie,
                                               bool is_secure) {
  const std::string name = name_of(cookie, is_secure);
  std::optional<std::string> found;
  for (const wire::http::Header& header : request.headers) {
    if (header.name != "cookie") {
      continue;
    }
    for (const std::string_view part : base::split(header.value, ';')) {
      const std::string_view pair = base::trim(part);
      const size_t equals = pair.find('=');
      if (equals == std::string_view::npos || pair.substr(0, equals) != name) {
        continue;
      }
      if (found) {
        return base::fail(ErrorCode::unauthenticated, "more than one cookie ", name);
      }
      found = pair.substr(equals + 1);
    }
  }
  return found;
}

std::string set_cookie(Cookie cookie, std::string_view value, int64_t seconds, bool is_secure) {
  // The issuer's page leads back to us: a strict cookie would not come along.
  const std::string_view same_site = cookie == Cookie::session ? "Strict" : "Lax";
  return base::cat(name_of(cookie, is_secure), "=", value, "; Path=/; Max-Age=", seconds,
                   "; HttpOnly; SameSite=", same_site, is_secure ? "; Secure" : "");
}

Result<void> check_own_page(const wire::http::Request& request) {
  const std::string* own = request.find(kSessionHeader);
  if (own == nullptr || *own != "1") {
    return base::fail(ErrorCode::unauthenticated, "a session's cookie counts only with the header ",
                      kSessionHeader, ": 1");
  }
  const std::string* site = request.find("sec-fetch-site");
  if (site != nullptr && *site != "same-origin") {
    return base::fail(ErrorCode::unauthenticated, "a page of another origin asks");
  }
  return {};
}

Task<Result<std::optional<service::Caller>>> session_caller(Application& application,
                                                            const wire::http::Request& request) {
  service::BrowserSignIn* const browsers = application.browsers;
  if (browsers == nullptr) {
    co_return std::nullopt;
  }
  CO_ASSIGN_OR_RETURN(auto cookie, find_cookie(request, Cookie::session, browsers->is_secure()));
  if (!cookie) {
    co_return std::nullopt;
  }
  CO_RETURN_IF_ERROR(check_own_page(request));
  co_return co_await browsers->open(std::move(*cookie));
}

}  // namespace server
