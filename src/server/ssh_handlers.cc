// SSH: tokens and tunnels for clients of the API, and what the front asks on its own socket
// (ssh_routes.h, api/ssh-protocol.md).
#include <fcntl.h>
#include <sys/socket.h>

#include "base/host.h"
#include "base/sys.h"
#include "server/audit_record.h"
#include "server/handlers.h"
#include "server/relay_ssh.h"
#include "server/websocket.h"
#include "service/containers.h"
#include "service/ssh.h"
#include "service/ssh_request.h"

namespace server {
namespace {

using service::CommandKind;
using service::Commands;
using service::Ssh;
using wire::http::HeadBuilder;

constexpr std::string_view kUpgradeLines = "sandbox-ssh";

Result<Ssh*> front_of(Application& application) {
  if (application.ssh == nullptr) {
    return base::fail(ErrorCode::ssh_unavailable, "there is no SSH front here");
  }
  RETURN_IF_ERROR(application.ssh->check_front());
  return application.ssh;
}

// Where the client finds the front: as configured, else where it found the gateway.
std::string host_of(const Ssh& ssh, const wire::http::Request& request) {
  if (!ssh.settings().host.empty()) {
    return ssh.settings().host;
  }
  const std::string* shown = request.find("host");
  std::string_view host = shown == nullptr ? std::string_view() : std::string_view(*shown);
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  return host.empty() || host.size() > base::kHostBytesMax ? "localhost" : std::string(host);
}

std::string bearer_of(const wire::http::Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string* shown = request.find("authorization");
  return shown != nullptr && shown->starts_with(kScheme) ? shown->substr(kScheme.size()) : "";
}

// Where the SSH client connects from, as the front saw it.
std::string client_address(const wire::http::Request& request) {
  const std::string* told = request.find("x-client-address");
  return told == nullptr ? "" : service::audit_text(*told);
}

// The caller becomes the exchange's, so that who loses the right to go on is cut off as elsewhere.
void enter(Exchange& exchange, const Ssh::Connection& connection) {
  service::Caller caller = connection.caller();
  exchange.set_remote(caller.remote);
  exchange.set_caller(std::move(caller));
  exchange.audit().sandbox = connection.sandbox();
  exchange.choose_container(connection.container());
}

// The connection whose channel is asked for.
Result<const Ssh::Connection*> connection_of(Application& application, Exchange& exchange) {
  ASSIGN_OR_RETURN(Ssh* const ssh, front_of(application));
  const Ssh::Connection* const connection = ssh->find(bearer_of(exchange.request()));
  if (connection == nullptr) {
    return base::fail(ErrorCode::unauthenticated, "there is no such connection");
  }
  ASSIGN_OR_RETURN(const auto caller, application.access.look_again(connection->caller()));
  if (!caller.may(service::Scope::member)) {
    return base::fail(ErrorCode::forbidden, "the token does not allow this");
  }
  enter(exchange, *connection);
  return connection;
}

// A stream between front and agent at `target`, with the request's own parameters.
Task<Result<void>> relay_parameters(Application& application, Exchange& exchange,
                                    std::string_view target, bool is_told) {
  CO_ASSIGN_OR_RETURN(const auto* const connection, connection_of(application, exchange));
  const std::string sandbox = connection->sandbox();
  CO_ASSIGN_OR_RETURN(const auto use, application.sandboxes.use(exchange.caller(), sandbox));
  if (is_told) {
    CO_ASSIGN_OR_RETURN(const auto parameters, exchange.request().parameters());
    for (const auto& [name, value] : parameters) {
      exchange.note(name, service::audit_text(value));
    }
    begin_action(application, exchange);
  }
  exchange.mark_endless();
  co_return co_await relay_ssh_stream(
      application, exchange, use.live(),
      {.method = "GET",
       .target = base::cat("/streams/", target, "?", exchange.request().query),
       .body = {},
       .upgrade = "sandbox-stream",
       .halves = true});
}

Task<Result<void>> run(Application& application, Exchange& exchange, std::string_view target,
                       std::string_view upgrade, bool halves) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kRunBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto* const connection, connection_of(application, exchange));
  const std::string sandbox = connection->sandbox();
  CO_ASSIGN_OR_RETURN(const auto use, application.sandboxes.use(exchange.caller(), sandbox));
  CO_ASSIGN_OR_RETURN(auto request, service::parse_ssh_command(std::move(body)));
  const bool has_terminal = request.audit.contains("tty");
  exchange.audit().details = std::move(request.audit);
  exchange.mark_endless();
  Commands::Running command(application.commands, use.live(), exchange.caller(),
                            {.kind = has_terminal ? CommandKind::terminal : CommandKind::stream,
                             .argv_text = std::move(request.argv_text),
                             .user = {},
                             .request_id = exchange.request_id()});
  auto done = co_await relay_ssh_stream(application, exchange, use.live(),
                                        {.method = "POST",
                                         .target = std::string(target),
                                         .body = std::move(request.body),
                                         .upgrade = upgrade,
                                         .halves = halves});
  command.end(exchange.status(), exchange.exit_code());
  co_return done;
}

// Until the sandbox is no longer to be used; then the front is told and cut off.
Task<void> tell_end(service::LivePtr live, net::Stream& front, net::TaskGroup& both) {
  while (live->row.state == model::SandboxState::ready) {
    const auto wake = co_await live->changed.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
  co_await front.write_all("the sandbox has ended\n", kWritePatience);
  both.cancel();
}

Task<void> wait_for_front(net::Stream& front, net::TaskGroup& both) {
  [[maybe_unused]] const auto ended = co_await front.wait_readable(net::Deadline::never());
  both.cancel();
}

// What the front holds open for a client: its end is the client's.
Task<void> hold_connection(service::LivePtr live, net::Stream& front) {
  net::TaskGroup both(front.loop(), co_await net::current_cancellation());
  both.spawn(wait_for_front(front, both));
  both.spawn(tell_end(std::move(live), front, both));
  co_await both.join();
}

// Who shows a token, and for what, as it is now.
Task<Result<service::SshTokens::Pass>> let_in(Application& application, Ssh& ssh,
                                              Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto pass, ssh.verify(bearer_of(exchange.request())));
  auto caller = application.access.look_again(pass.caller);
  if (!caller && !application.replicas.alone()) {
    // The API token was made by another gateway a moment ago, or is revoked.
    CO_RETURN_IF_ERROR(co_await application.access.load());
    caller = application.access.look_again(pass.caller);
  }
  if (!caller || !caller->may(service::Scope::member)) {
    co_return base::fail(ErrorCode::unauthenticated,
                         "who asked for the token may not use the sandbox any more");
  }
  pass.caller = std::move(*caller);
  pass.caller.remote = client_address(exchange.request());
  co_await application.sandboxes.look(pass.sandbox, service::Sandboxes::Look::usable);
  co_return pass;
}

// A token for what the request asks for: the sandbox, and the container of it that it names.
Result<std::string> issue_token(const Ssh& ssh, const Exchange& exchange,
                                const service::SandboxRow& row) {
  ASSIGN_OR_RETURN(const auto asked, exchange.request().parameter("container"));
  const std::string container = asked.value_or("");
  RETURN_IF_ERROR(service::container_number(row, container));
  return ssh.issue(exchange.caller(), row.id, container);
}

}  // namespace

Task<Result<void>> ssh_session(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container"}));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(const Ssh* const ssh, front_of(application));
  CO_ASSIGN_OR_RETURN(const auto token, issue_token(*ssh, exchange, use.live()->row));
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"token", token},
                                                    {"expiresIn", service::SshTokens::kLifetimeSec},
                                                    {"host", host_of(*ssh, exchange.request())},
                                                    {"port", ssh->settings().port},
                                                    {"hostKey", ssh->key().public_line}}));
}

Task<Result<void>> ssh_tunnel(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"container", "ticket"}));
  CO_ASSIGN_OR_RETURN(const Handshake handshake, check_handshake(exchange.request()));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(Ssh* const ssh, front_of(application));
  CO_ASSIGN_OR_RETURN(const auto token, issue_token(*ssh, exchange, use.live()->row));
  CO_ASSIGN_OR_RETURN(auto pair, base::sys::make_socket_pair(SOCK_STREAM));
  CO_RETURN_IF_ERROR(base::sys::set_nonblocking(pair.first.get()));
  CO_RETURN_IF_ERROR(ssh->hand_over(std::move(pair.second), token, exchange.remote()));
  exchange.mark_endless();
  HeadBuilder head = exchange.start_head(kSwitchingProtocols);
  head.add("connection", "Upgrade").add("upgrade", "websocket");
  head.add("sec-websocket-accept", handshake.accept);
  if (handshake.with_subprotocol) {
    head.add("sec-websocket-protocol", kSubprotocol);
  }
  CO_RETURN_IF_ERROR(co_await exchange.switch_protocols(std::move(head)));
  net::Stream front(exchange.client().loop(), std::move(pair.first));
  co_await pump_tunnel(exchange, front);
  co_return Result<void>{};
}

// --- what the front asks -------------------------------------------------------------------------

Task<Result<void>> ssh_front(Application& application, Exchange& exchange) {
  if (application.ssh == nullptr) {
    co_return base::fail(ErrorCode::ssh_unavailable, "SSH is off");
  }
  base::Fd copy(::fcntl(exchange.client().fd(), F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    co_return base::fail_errno(errno, "duplicate the front's connection");
  }
  exchange.mark_endless();
  HeadBuilder head = exchange.start_head(kSwitchingProtocols);
  head.add("connection", "Upgrade").add("upgrade", kUpgradeLines);
  CO_RETURN_IF_ERROR(co_await exchange.switch_protocols(std::move(head)));
  net::JsonLines lines(application.loop, std::move(copy));
  // It speaks first: so nothing of ours is read together with the head.
  const auto hello = co_await lines.read(net::Deadline::after(kWritePatience));
  if (!hello || !*hello) {
    co_return base::fail(ErrorCode::connection_closed, "the front said nothing");
  }
  CO_RETURN_IF_ERROR(lines.send({{"host_key", application.ssh->key().private_key.reveal()}}));
  const Ssh::Front front(*application.ssh, lines);
  application.log.info("SSH front came");
  for (;;) {
    const auto line = co_await lines.read(net::Deadline::never());
    if (!line || !*line) {
      break;
    }
    const auto* const dropped = (*line)->object.if_contains("dropped");
    if (dropped != nullptr && dropped->is_int64() && dropped->get_int64() > 0) {
      application.ssh->counts().dropped += static_cast<uint64_t>(dropped->get_int64());
    }
  }
  application.log.info("SSH front went");
  co_return Result<void>{};
}

Task<Result<void>> ssh_connect(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(Ssh* const ssh, front_of(application));
  exchange.set_remote(client_address(exchange.request()));
  auto pass = co_await let_in(application, *ssh, exchange);
  if (!pass) {
    ++ssh->counts().refused;
    co_return std::unexpected(std::move(pass).error());
  }
  CO_ASSIGN_OR_RETURN(const auto use, application.sandboxes.use(pass->caller, pass->sandbox));
  CO_RETURN_IF_ERROR(ssh->check_room());
  CO_ASSIGN_OR_RETURN(const auto held,
                      application.limiter.hold(pass->caller, service::Limiter::Kind::streams));
  const Ssh::Connection connection(*ssh, std::move(*pass));
  enter(exchange, connection);
  begin_action(application, exchange);
  exchange.mark_endless();
  ++ssh->counts().accepted;
  HeadBuilder head = exchange.start_head(kSwitchingProtocols);
  head.add("connection", "Upgrade").add("upgrade", kUpgradeLines);
  head.add("x-connection", connection.secret()).add("x-sandbox", connection.sandbox());
  CO_RETURN_IF_ERROR(co_await exchange.switch_protocols(std::move(head)));
  co_await hold_connection(use.live(), exchange.client());
  co_return Result<void>{};
}

Task<Result<void>> ssh_command(Application& application, Exchange& exchange) {
  return run(application, exchange, "/command", "websocket", false);
}

Task<Result<void>> ssh_helper(Application& application, Exchange& exchange) {
  return run(application, exchange, "/streams/helper", "sandbox-stream", true);
}

Task<Result<void>> ssh_tcp(Application& application, Exchange& exchange) {
  return relay_parameters(application, exchange, "tcp", true);
}

Task<Result<void>> ssh_unix(Application& application, Exchange& exchange) {
  return relay_parameters(application, exchange, "unix", true);
}

Task<Result<void>> ssh_listen(Application& application, Exchange& exchange) {
  return relay_parameters(application, exchange, "listen", true);
}

Task<Result<void>> ssh_accept(Application& application, Exchange& exchange) {
  return relay_parameters(application, exchange, "accept", false);
}

}  // namespace server
