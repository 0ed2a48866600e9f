// The handlers of the route table, by group. Each parses its request, calls one use case and
// answers.
#pragma once

#include "server/application.h"
#include "server/exchange.h"

namespace server {

// sandbox_handlers.cc
Task<Result<void>> create_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> list_sandboxes(Application& application, Exchange& exchange);
Task<Result<void>> get_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> patch_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> delete_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> stop_container(Application& application, Exchange& exchange);
Task<Result<void>> check_compose(Application& application, Exchange& exchange);
Task<Result<void>> sandbox_events(Application& application, Exchange& exchange);

// team_handlers.cc
Task<Result<void>> list_teams(Application& application, Exchange& exchange);
Task<Result<void>> create_team(Application& application, Exchange& exchange);
Task<Result<void>> apply_teams(Application& application, Exchange& exchange);
Task<Result<void>> get_team(Application& application, Exchange& exchange);
Task<Result<void>> put_team(Application& application, Exchange& exchange);
Task<Result<void>> patch_team(Application& application, Exchange& exchange);
Task<Result<void>> delete_team(Application& application, Exchange& exchange);
Task<Result<void>> list_members(Application& application, Exchange& exchange);
Task<Result<void>> put_member(Application& application, Exchange& exchange);
Task<Result<void>> delete_member(Application& application, Exchange& exchange);

// token_handlers.cc
Task<Result<void>> list_tokens(Application& application, Exchange& exchange);
Task<Result<void>> create_token(Application& application, Exchange& exchange);
Task<Result<void>> get_token(Application& application, Exchange& exchange);
Task<Result<void>> delete_token(Application& application, Exchange& exchange);
Task<Result<void>> me(Application& application, Exchange& exchange);
// login_handlers.cc
Task<Result<void>> login(Application& application, Exchange& exchange);
Task<Result<void>> login_callback(Application& application, Exchange& exchange);
Task<Result<void>> begin_device_login(Application& application, Exchange& exchange);
Task<Result<void>> finish_device_login(Application& application, Exchange& exchange);
Task<Result<void>> logout(Application& application, Exchange& exchange);
// sign_in_handlers.cc
Task<Result<void>> list_sign_ins(Application& application, Exchange& exchange);
Task<Result<void>> end_sign_in(Application& application, Exchange& exchange);
Task<Result<void>> end_sign_ins(Application& application, Exchange& exchange);
// identity_handlers.cc
Task<Result<void>> openid_configuration(Application& application, Exchange& exchange);
Task<Result<void>> identity_key_set(Application& application, Exchange& exchange);
Task<Result<void>> exchange_token(Application& application, Exchange& exchange);
Task<Result<void>> make_identity_token(Application& application, Exchange& exchange);
Task<Result<void>> list_identity_keys(Application& application, Exchange& exchange);
Task<Result<void>> rotate_identity_keys(Application& application, Exchange& exchange);
// quota_handlers.cc
Task<Result<void>> get_quotas(Application& application, Exchange& exchange);
Task<Result<void>> drain_team(Application& application, Exchange& exchange);
Task<Result<void>> undrain_team(Application& application, Exchange& exchange);

// replica_handlers.cc
Task<Result<void>> list_replicas(Application& application, Exchange& exchange);

// audit_handlers.cc
Task<Result<void>> sandbox_audit_logs(Application& application, Exchange& exchange);
Task<Result<void>> audit_logs(Application& application, Exchange& exchange);
Task<Result<void>> audit_head(Application& application, Exchange& exchange);
Task<Result<void>> activity(Application& application, Exchange& exchange);

// limit_handlers.cc
Task<Result<void>> get_token_limits(Application& application, Exchange& exchange);
Task<Result<void>> put_token_limits(Application& application, Exchange& exchange);
Task<Result<void>> delete_token_limits(Application& application, Exchange& exchange);

// command_handlers.cc
Task<Result<void>> sandbox_activity(Application& application, Exchange& exchange);
Task<Result<void>> run_command(Application& application, Exchange& exchange);
Task<Result<void>> exec_command(Application& application, Exchange& exchange);

// usage_handlers.cc
Task<Result<void>> sandbox_metrics(Application& application, Exchange& exchange);

// session_handlers.cc
Task<Result<void>> start_session(Application& application, Exchange& exchange);
Task<Result<void>> list_sessions(Application& application, Exchange& exchange);
Task<Result<void>> get_session(Application& application, Exchange& exchange);
Task<Result<void>> delete_session(Application& application, Exchange& exchange);
Task<Result<void>> session_logs(Application& application, Exchange& exchange);
Task<Result<void>> sandbox_logs(Application& application, Exchange& exchange);
Task<Result<void>> session_stdin(Application& application, Exchange& exchange);
Task<Result<void>> kill_session(Application& application, Exchange& exchange);
Task<Result<void>> resize_session(Application& application, Exchange& exchange);
Task<Result<void>> attach_session(Application& application, Exchange& exchange);
Task<Result<void>> open_terminal(Application& application, Exchange& exchange);

// stream_handlers.cc
Task<Result<void>> open_tcp_stream(Application& application, Exchange& exchange);
Task<Result<void>> open_socket_stream(Application& application, Exchange& exchange);
Task<Result<void>> open_listener(Application& application, Exchange& exchange);
Task<Result<void>> accept_stream(Application& application, Exchange& exchange);
Task<Result<void>> open_helper_stream(Application& application, Exchange& exchange);

// file_handlers.cc
Task<Result<void>> get_file(Application& application, Exchange& exchange);
Task<Result<void>> put_file(Application& application, Exchange& exchange);
Task<Result<void>> delete_file(Application& application, Exchange& exchange);
Task<Result<void>> make_folder(Application& application, Exchange& exchange);
Task<Result<void>> move_file(Application& application, Exchange& exchange);
Task<Result<void>> watch_files(Application& application, Exchange& exchange);
Task<Result<void>> change_file_mode(Application& application, Exchange& exchange);

// v1_handlers.cc
Task<Result<void>> v1_create_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> v1_list_sandboxes(Application& application, Exchange& exchange);
Task<Result<void>> v1_get_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> v1_delete_sandbox(Application& application, Exchange& exchange);
// v1_exec.cc, v1_files.cc, v1_audit.cc
Task<Result<void>> v1_exec(Application& application, Exchange& exchange);
Task<Result<void>> v1_read_file(Application& application, Exchange& exchange);
Task<Result<void>> v1_write_file(Application& application, Exchange& exchange);
Task<Result<void>> v1_audit_logs(Application& application, Exchange& exchange);
Task<Result<void>> v1_audit_log(Application& application, Exchange& exchange);

// ssh_handlers.cc; ssh_session is both APIs', from ssh_front on it is the front that asks
Task<Result<void>> ssh_session(Application& application, Exchange& exchange);
Task<Result<void>> ssh_tunnel(Application& application, Exchange& exchange);
Task<Result<void>> ssh_front(Application& application, Exchange& exchange);
Task<Result<void>> ssh_connect(Application& application, Exchange& exchange);
Task<Result<void>> ssh_command(Application& application, Exchange& exchange);
Task<Result<void>> ssh_helper(Application& application, Exchange& exchange);
Task<Result<void>> ssh_tcp(Application& application, Exchange& exchange);
Task<Result<void>> ssh_unix(Application& application, Exchange& exchange);
Task<Result<void>> ssh_listen(Application& application, Exchange& exchange);
Task<Result<void>> ssh_accept(Application& application, Exchange& exchange);

// image_handlers.cc
Task<Result<void>> list_images(Application& application, Exchange& exchange);
Task<Result<void>> post_image(Application& application, Exchange& exchange);
Task<Result<void>> get_image(Application& application, Exchange& exchange);
Task<Result<void>> delete_image(Application& application, Exchange& exchange);
Task<Result<void>> collect_images(Application& application, Exchange& exchange);
Task<Result<void>> get_pull(Application& application, Exchange& exchange);
Task<Result<void>> list_registries(Application& application, Exchange& exchange);
Task<Result<void>> get_registry(Application& application, Exchange& exchange);
Task<Result<void>> put_registry(Application& application, Exchange& exchange);
Task<Result<void>> delete_registry(Application& application, Exchange& exchange);

// build_handlers.cc
Task<Result<void>> create_build(Application& application, Exchange& exchange);
Task<Result<void>> list_builds(Application& application, Exchange& exchange);
Task<Result<void>> get_build(Application& application, Exchange& exchange);
Task<Result<void>> cancel_build(Application& application, Exchange& exchange);
Task<Result<void>> build_logs(Application& application, Exchange& exchange);

// embedded_handlers.cc
Task<Result<void>> client_file(Application& application, Exchange& exchange);
Task<Result<void>> docs_page(Application& application, Exchange& exchange);
Task<Result<void>> docs_file(Application& application, Exchange& exchange);

// service_handlers.cc
Task<Result<void>> healthz(Application& application, Exchange& exchange);
Task<Result<void>> readyz(Application& application, Exchange& exchange);
Task<Result<void>> metrics(Application& application, Exchange& exchange);
Task<Result<void>> openapi(Application& application, Exchange& exchange);
Task<Result<void>> make_ticket(Application& application, Exchange& exchange);
Task<Result<void>> not_built(Application& application, Exchange& exchange);

}  // namespace server
