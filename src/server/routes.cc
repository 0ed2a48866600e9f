// The route table.
#include <array>

#include "server/handlers.h"
#include "server/route.h"

namespace server {
namespace {

using service::Scope;
namespace audit_event = service::audit_event;

constexpr auto kRoutes = std::to_array<Route>({
    {"POST", "/sandboxes", Scope::member, create_sandbox, audit_event::kCreate},
    {"GET", "/sandboxes", Scope::read, list_sandboxes},
    {"GET", "/sandboxes/{id}", Scope::read, get_sandbox},
    {"PATCH", "/sandboxes/{id}", Scope::member, patch_sandbox, audit_event::kPatch},
    {"DELETE", "/sandboxes/{id}", Scope::member, delete_sandbox, audit_event::kDelete},
    {"POST", "/sandboxes/{id}/containers/{container}/stop", Scope::member, stop_container,
     "container.stop"},
    {"POST", "/compose/check", Scope::read, check_compose},
    {"GET", "/sandboxes/{id}/events", Scope::read, sandbox_events},
    {"GET", "/sandboxes/{id}/activity", Scope::read, sandbox_activity},
    {"GET", "/sandboxes/{id}/audit-logs", Scope::read, sandbox_audit_logs},
    {"GET", "/sandboxes/{id}/metrics", Scope::read, sandbox_metrics},
    {"POST", "/sandboxes/{id}/run", Scope::member, run_command, "command.run"},
    {"POST", "/sandboxes/{id}/exec", Scope::member, exec_command, "command.exec"},
    {"GET", "/sandboxes/{id}/logs", Scope::member, sandbox_logs},
    {"POST", "/sandboxes/{id}/sessions", Scope::member, start_session, "session.start"},
    {"GET", "/sandboxes/{id}/sessions", Scope::member, list_sessions},
    {"GET", "/sandboxes/{id}/sessions/{sid}", Scope::member, get_session},
    {"DELETE", "/sandboxes/{id}/sessions/{sid}", Scope::member, delete_session, "session.delete"},
    {"GET", "/sandboxes/{id}/sessions/{sid}/logs", Scope::member, session_logs},
    {"POST", "/sandboxes/{id}/sessions/{sid}/stdin", Scope::member, session_stdin},
    {"POST", "/sandboxes/{id}/sessions/{sid}/kill", Scope::member, kill_session, "session.kill"},
    {"POST", "/sandboxes/{id}/sessions/{sid}/resize", Scope::member, resize_session},
    {"GET", "/sandboxes/{id}/sessions/{sid}/attach", Scope::member, attach_session,
     "session.attach", true},
    {"GET", "/sandboxes/{id}/terminal", Scope::member, open_terminal, "terminal.open", true},
    {"GET", "/sandboxes/{id}/streams/tcp", Scope::member, open_tcp_stream, "stream.tcp"},
    {"GET", "/sandboxes/{id}/streams/unix", Scope::member, open_socket_stream, "stream.unix"},
    {"GET", "/sandboxes/{id}/streams/listen", Scope::member, open_listener, "stream.listen"},
    {"GET", "/sandboxes/{id}/streams/accept", Scope::member, accept_stream, "stream.accept"},
    {"POST", "/sandboxes/{id}/streams/helper", Scope::member, open_helper_stream, "stream.helper"},
    {"GET", "/sandboxes/{id}/files", Scope::member, get_file, "file.read"},
    {"PUT", "/sandboxes/{id}/files", Scope::member, put_file, "file.write"},
    {"DELETE", "/sandboxes/{id}/files", Scope::member, delete_file, "file.delete"},
    {"GET", "/sandboxes/{id}/files/watch", Scope::member, watch_files, "file.watch"},
    {"POST", "/sandboxes/{id}/files/mkdir", Scope::member, make_folder, "file.mkdir"},
    {"POST", "/sandboxes/{id}/files/move", Scope::member, move_file, "file.move"},
    {"POST", "/sandboxes/{id}/files/chmod", Scope::member, change_file_mode, "file.chmod"},
    {"POST", "/sandboxes/{id}/ssh-session", Scope::member, ssh_session, "ssh.open"},
    {"GET", "/sandboxes/{id}/ssh", Scope::member, ssh_tunnel, "ssh.tunnel", true},
    {"POST", "/sandboxes/{id}/identity-token", Scope::member, make_identity_token,
     "identity.token"},
    {"GET", "/images", Scope::read, list_images},
    {"POST", "/images", Scope::admin, post_image, "image.add"},
    {"POST", "/images/gc", Scope::platform, collect_images, "image.gc"},
    {"GET", "/images/pulls/{id}", Scope::read, get_pull},
    {"GET", "/images/{name}", Scope::read, get_image},
    {"DELETE", "/images/{name}", Scope::platform, delete_image, "image.delete"},
    {"POST", "/builds", Scope::member, create_build, "build.create"},
    {"GET", "/builds", Scope::read, list_builds},
    {"GET", "/builds/{id}", Scope::read, get_build},
    {"DELETE", "/builds/{id}", Scope::member, cancel_build, "build.cancel"},
    {"GET", "/builds/{id}/logs", Scope::member, build_logs},
    {"GET", "/teams", Scope::read, list_teams},
    {"POST", "/teams", Scope::platform, create_team, "team.create"},
    {"PUT", "/teams", Scope::platform, apply_teams, "team.apply"},
    {"GET", "/teams/{team}", Scope::read, get_team},
    {"PUT", "/teams/{team}", Scope::platform, put_team, "team.put"},
    {"PATCH", "/teams/{team}", Scope::admin, patch_team, "team.patch"},
    {"DELETE", "/teams/{team}", Scope::platform, delete_team, "team.delete"},
    {"GET", "/teams/{team}/members", Scope::read, list_members},
    {"PUT", "/teams/{team}/members/{subject}", Scope::admin, put_member, "member.put"},
    {"DELETE", "/teams/{team}/members/{subject}", Scope::admin, delete_member, "member.delete"},
    {"GET", "/teams/{team}/registries", Scope::admin, list_registries},
    {"GET", "/teams/{team}/registries/{host}", Scope::admin, get_registry},
    {"PUT", "/teams/{team}/registries/{host}", Scope::admin, put_registry, "registry.put"},
    {"DELETE", "/teams/{team}/registries/{host}", Scope::admin, delete_registry, "registry.delete"},
    {"GET", "/audit-logs", Scope::read, audit_logs},
    {"GET", "/audit-logs/head", Scope::read, audit_head},
    {"GET", "/activity", Scope::read, activity},
    {"GET", "/tokens/{id}/limits", Scope::platform, get_token_limits},
    {"PUT", "/tokens/{id}/limits", Scope::platform, put_token_limits, "token.limits"},
    {"DELETE", "/tokens/{id}/limits", Scope::platform, delete_token_limits, "token.limits"},
    {"POST", "/teams/{team}/drain", Scope::platform, drain_team, "team.drain"},
    {"DELETE", "/teams/{team}/drain", Scope::platform, undrain_team, "team.undrain"},
    {"GET", "/quotas", Scope::read, get_quotas},
    {"GET", "/replicas", Scope::platform, list_replicas},
    {"POST", "/ws-tickets", Scope::member, make_ticket},
    {"GET", "/me", Scope::any, me},
    {"GET", "/tokens", Scope::any, list_tokens},
    {"POST", "/tokens", Scope::admin, create_token, "token.create"},
    {"GET", "/tokens/{id}", Scope::any, get_token},
    {"DELETE", "/tokens/{id}", Scope::any, delete_token, "token.revoke"},
    {"GET", "/sign-ins", Scope::any, list_sign_ins},
    {"DELETE", "/sign-ins", Scope::any, end_sign_ins, "sign-in.end"},
    {"DELETE", "/sign-ins/{id}", Scope::any, end_sign_in, "sign-in.end"},
    {"GET", "/login", Scope::open, login},
    {"GET", "/login/callback", Scope::open, login_callback, "login"},
    {"POST", "/login/device", Scope::open, begin_device_login, "login"},
    {"POST", "/login/device/token", Scope::open, finish_device_login, "login"},
    {"POST", "/logout", Scope::open, logout, "logout"},
    {"GET", "/identity/keys", Scope::platform, list_identity_keys},
    {"POST", "/identity/keys/rotate", Scope::platform, rotate_identity_keys, "identity.rotate"},
    {"GET", "/.well-known/openid-configuration", Scope::open, openid_configuration},
    {"GET", "/.well-known/jwks.json", Scope::open, identity_key_set},
    {"POST", "/oauth/token", Scope::open, exchange_token, "token.exchange"},
    {"GET", "/healthz", Scope::open, healthz},
    {"GET", "/readyz", Scope::open, readyz},
    {"GET", "/metrics", Scope::metrics, metrics},
    {"GET", "/openapi.json", Scope::open, openapi},
    {"GET", "/docs", Scope::open, docs_page},
    {"GET", "/docs/{file}", Scope::open, docs_file},
    {"GET", "/clients/{file}", Scope::open, client_file},
    // The agentic-sandbox API (docs/agentic-api.md).
    {"POST", "/api/v1/sandboxes", Scope::member, v1_create_sandbox, audit_event::kCreate},
    {"GET", "/api/v1/sandboxes", Scope::read, v1_list_sandboxes},
    {"GET", "/api/v1/sandboxes/{id}", Scope::read, v1_get_sandbox},
    {"DELETE", "/api/v1/sandboxes/{id}", Scope::member, v1_delete_sandbox, audit_event::kDelete},
    {"POST", "/api/v1/sandboxes/{id}/ssh-session", Scope::member, ssh_session, "ssh.open"},
    {"POST", "/api/v1/sandboxes/{id}/exec", Scope::member, v1_exec, "command.stream"},
    {"POST", "/api/v1/sandboxes/{id}/read-file", Scope::member, v1_read_file, "file.read"},
    {"POST", "/api/v1/sandboxes/{id}/write-file", Scope::member, v1_write_file, "file.write"},
    {"GET", "/api/v1/sandboxes/{id}/audit-logs", Scope::read, v1_audit_logs},
    {"GET", "/api/v1/sandboxes/{id}/audit-logs/{log}", Scope::read, v1_audit_log},
    // The same for clients whose base lacks the prefix, where none of ours stands in the way.
    {"POST", "/sandboxes/{id}/read-file", Scope::member, v1_read_file, "file.read"},
    {"POST", "/sandboxes/{id}/write-file", Scope::member, v1_write_file, "file.write"},
    {"GET", "/sandboxes/{id}/audit-logs/{log}", Scope::read, v1_audit_log},
});

constexpr Route waiting(std::string_view method, std::string_view pattern) {
  return {method, pattern, Scope::member, not_built};
}

constexpr auto kNotBuilt = std::to_array<Route>({
    waiting("GET", "/nodes"),
    waiting("GET", "/stream"),
    {"GET", "/", Scope::open, not_built},
});

}  // namespace

std::span<const Route> routes() { return kRoutes; }
std::span<const Route> routes_not_built() { return kNotBuilt; }

}  // namespace server
