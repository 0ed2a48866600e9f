#include "oidc/url.h"

#include <algorithm>

namespace oidc {
namespace {

constexpr std::string_view kHttps = "https://";
constexpr std::string_view kHttp = "http://";

// The name or address in "host:port/path".
std::string_view host_of(std::string_view rest) {
  rest = rest.substr(0, rest.find('/'));
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end + 1);
  }
  return rest.substr(0, rest.find(':'));
}

bool is_loopback(std::string_view host) {
  return host == "127.0.0.1" || host == "[::1]" || host == "localhost";
}

bool is_plain(char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '<' && c != '>'; }

}  // namespace

bool is_https(std::string_view url) { return url.starts_with(kHttps); }

base::Result<void> check_url(std::string_view field, std::string_view url) {
  const bool has_scheme = is_https(url) || url.starts_with(kHttp);
  const std::string_view rest = has_scheme ? url.substr(url.find("//") + 2) : std::string_view();
  const std::string_view host = host_of(rest);
  if (host.empty() || url.size() > kUrlBytesMax || !std::ranges::all_of(url, is_plain) ||
      url.find_first_of("@?#\\") != std::string_view::npos) {
    return base::fail_field(field, field, ": '", url.substr(0, kUrlBytesMax),
                            "' is not an address like https://HOST[:PORT][/PATH]");
  }
  if (!is_https(url) && !is_loopback(host)) {
    return base::fail_field(field, field, ": '", url,
                            "' must be https://; http:// is for this machine only");
  }
  return {};
}

std::string origin_of(std::string_view url) {
  const size_t host = url.find("//") + 2;
  return base::lower(url.substr(0, url.find('/', host)));
}

std::string form_of(const std::vector<std::pair<std::string_view, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    out += base::cat(out.empty() ? "" : "&", name, "=", base::percent_encode(value));
  }
  return out;
}

}  // namespace oidc
