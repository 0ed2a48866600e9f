#include "server/ssh_routes.h"

#include <array>

#include "server/handlers.h"

namespace server {
namespace {

using service::Scope;

// Who asks is told by the secret of a connection, which each handler looks up itself.
constexpr auto kRoutes = std::to_array<Route>({
    {"GET", "/front", Scope::open, ssh_front},
    {"POST", "/connections", Scope::open, ssh_connect, "ssh.connect"},
    {"POST", "/command", Scope::open, ssh_command, "ssh.command"},
    {"POST", "/helper", Scope::open, ssh_helper, "ssh.command"},
    {"GET", "/tcp", Scope::open, ssh_tcp, "ssh.forward"},
    {"GET", "/unix", Scope::open, ssh_unix, "ssh.forward"},
    {"GET", "/listen", Scope::open, ssh_listen, "ssh.forward"},
    {"GET", "/accept", Scope::open, ssh_accept},
});

}  // namespace

Result<Match> find_ssh_route(std::string_view method, std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.pattern == path) {
      if (route.method != method) {
        return base::fail(ErrorCode::method_not_allowed, "the route does not take this method");
      }
      return Match{.route = &route, .index = SIZE_MAX, .segments = {}};
    }
  }
  return base::fail(ErrorCode::not_found, "there is no such route");
}

}  // namespace server
