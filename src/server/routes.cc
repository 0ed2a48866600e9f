// The route table.
#include <array>

#include "server/handlers.h"
#include "server/route.h"

namespace server {
namespace {

using service::Scope;

constexpr auto kRoutes = std::to_array<Route>({
    {"POST", "/sandboxes", Scope::member, create_sandbox},
    {"GET", "/sandboxes", Scope::member, list_sandboxes},
    {"GET", "/sandboxes/{id}", Scope::member, get_sandbox},
    {"PATCH", "/sandboxes/{id}", Scope::member, patch_sandbox},
    {"DELETE", "/sandboxes/{id}", Scope::member, delete_sandbox},
    {"GET", "/sandboxes/{id}/events", Scope::member, sandbox_events},
    {"GET", "/sandboxes/{id}/activity", Scope::member, sandbox_activity},
    {"POST", "/sandboxes/{id}/run", Scope::member, run_command},
    {"GET", "/sandboxes/{id}/files", Scope::member, get_file},
    {"PUT", "/sandboxes/{id}/files", Scope::member, put_file},
    {"GET", "/images", Scope::member, list_images},
    {"POST", "/images", Scope::admin, post_image},
    {"POST", "/images/gc", Scope::admin, collect_images},
    {"GET", "/images/pulls/{id}", Scope::member, get_pull},
    {"GET", "/images/{name}", Scope::member, get_image},
    {"DELETE", "/images/{name}", Scope::admin, delete_image},
    {"GET", "/teams/{team}/registries", Scope::admin, list_registries},
    {"GET", "/teams/{team}/registries/{host}", Scope::admin, get_registry},
    {"PUT", "/teams/{team}/registries/{host}", Scope::admin, put_registry},
    {"DELETE", "/teams/{team}/registries/{host}", Scope::admin, delete_registry},
    {"GET", "/me", Scope::member, me},
    {"GET", "/healthz", Scope::open, healthz},
    {"GET", "/readyz", Scope::open, readyz},
    {"GET", "/metrics", Scope::metrics, metrics},
    {"GET", "/openapi.json", Scope::open, openapi},
});

constexpr Route waiting(std::string_view method, std::string_view pattern) {
  return {method, pattern, Scope::member, not_built};
}

constexpr auto kNotBuilt = std::to_array<Route>({
    waiting("GET", "/sandboxes/{id}/metrics"),
    waiting("GET", "/sandboxes/{id}/logs"),
    waiting("GET", "/sandboxes/{id}/audit-logs"),
    waiting("POST", "/sandboxes/{id}/exec"),
    waiting("GET", "/sandboxes/{id}/sessions"),
    waiting("POST", "/sandboxes/{id}/sessions"),
    waiting("GET", "/sandboxes/{id}/sessions/{sid}"),
    waiting("DELETE", "/sandboxes/{id}/sessions/{sid}"),
    waiting("GET", "/sandboxes/{id}/sessions/{sid}/logs"),
    waiting("POST", "/sandboxes/{id}/sessions/{sid}/stdin"),
    waiting("POST", "/sandboxes/{id}/sessions/{sid}/kill"),
    waiting("POST", "/sandboxes/{id}/sessions/{sid}/resize"),
    waiting("GET", "/sandboxes/{id}/sessions/{sid}/attach"),
    waiting("GET", "/sandboxes/{id}/terminal"),
    waiting("DELETE", "/sandboxes/{id}/files"),
    waiting("POST", "/sandboxes/{id}/files/mkdir"),
    waiting("POST", "/sandboxes/{id}/files/move"),
    waiting("POST", "/sandboxes/{id}/files/chmod"),
    waiting("GET", "/sandboxes/{id}/files/watch"),
    waiting("POST", "/sandboxes/{id}/ssh-session"),
    waiting("POST", "/ws-tickets"),
    waiting("GET", "/builds"),
    waiting("POST", "/builds"),
    waiting("GET", "/builds/{id}"),
    waiting("DELETE", "/builds/{id}"),
    waiting("GET", "/builds/{id}/logs"),
    waiting("GET", "/teams"),
    waiting("POST", "/teams"),
    waiting("GET", "/teams/{team}"),
    waiting("PATCH", "/teams/{team}"),
    waiting("PUT", "/teams/{team}"),
    waiting("DELETE", "/teams/{team}"),
    waiting("GET", "/tokens"),
    waiting("POST", "/tokens"),
    waiting("DELETE", "/tokens/{id}"),
    waiting("GET", "/quotas"),
    waiting("GET", "/audit-logs"),
    waiting("GET", "/activity"),
    waiting("GET", "/nodes"),
    waiting("GET", "/replicas"),
    waiting("GET", "/stream"),
    {"GET", "/docs", Scope::open, not_built},
    {"GET", "/clients/{file}", Scope::open, not_built},
    {"POST", "/oauth/token", Scope::open, not_built},
    {"GET", "/.well-known/openid-configuration", Scope::open, not_built},
    {"GET", "/.well-known/jwks.json", Scope::open, not_built},
    {"GET", "/", Scope::open, not_built},
    waiting("GET", "/api/v1/sandboxes"),
    waiting("POST", "/api/v1/sandboxes"),
});

}  // namespace

std::span<const Route> routes() { return kRoutes; }
std::span<const Route> routes_not_built() { return kNotBuilt; }

}  // namespace server
