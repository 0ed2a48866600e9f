#include "server/command_start.h"
#include "server/handlers.h"
#include "server/relay_streams.h"

namespace server {
namespace {

// What a name in DNS or a socket's path may have at most.
constexpr size_t kTextBytesMax = 255;

// Checks the parameters and gives the agent's target; the rest of their meaning is the agent's to
// check.
Result<std::string> stream_target(Exchange& exchange, std::string_view path,
                                  std::initializer_list<std::string_view> known) {
  RETURN_IF_ERROR(check_stream_upgrade(exchange.request()));
  std::string target(path);
  char separator = '?';
  RETURN_IF_ERROR(exchange.check_parameters(known));
  for (const std::string_view name : known) {
    ASSIGN_OR_RETURN(const auto value, exchange.request().parameter(name));
    if (!value || name == "container") {
      continue;  // the agent serves one container and knows no such parameter
    }
    if (value->size() > kTextBytesMax || value->contains('\0')) {
      return base::fail_field(name, "'", name, "' has at most ", kTextBytesMax,
                              " bytes and no NUL");
    }
    exchange.note(name, service::audit_text(*value));
    target += base::cat(separator, name, "=", base::percent_encode(*value));
    separator = '&';
  }
  return target;
}

Result<void> require(const Exchange& exchange, std::string_view name) {
  ASSIGN_OR_RETURN(const auto value, exchange.request().parameter(name));
  if (!value || value->empty()) {
    return std::unexpected(Error{.code = ErrorCode::missing_field,
                                 .message = base::cat("'", name, "' is required"),
                                 .details = {{"field", std::string(name)}}});
  }
  return {};
}

Task<Result<void>> open_stream(Application& application, Exchange& exchange,
                               const std::string& target) {
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  exchange.mark_endless();
  co_return co_await relay_stream(application, exchange, use.live(), target, "");
}

Task<Result<void>> relay_helper(Application& application, Exchange& exchange, LivePtr live,
                                std::string body) {
  exchange.mark_endless();
  return relay_stream(application, exchange, std::move(live), "/streams/helper", std::move(body));
}

}  // namespace

Task<Result<void>> open_tcp_stream(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target,
                      stream_target(exchange, "/streams/tcp", {"container", "host", "port"}));
  CO_RETURN_IF_ERROR(require(exchange, "port"));
  co_return co_await open_stream(application, exchange, target);
}

Task<Result<void>> open_socket_stream(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target,
                      stream_target(exchange, "/streams/unix", {"container", "path", "user"}));
  CO_RETURN_IF_ERROR(require(exchange, "path"));
  co_return co_await open_stream(application, exchange, target);
}

Task<Result<void>> open_listener(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target, stream_target(exchange, "/streams/listen",
                                                 {"container", "host", "port", "path", "user"}));
  co_return co_await open_stream(application, exchange, target);
}

Task<Result<void>> accept_stream(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target, stream_target(exchange, "/streams/accept",
                                                 {"container", "listener", "connection"}));
  CO_RETURN_IF_ERROR(require(exchange, "listener"));
  CO_RETURN_IF_ERROR(require(exchange, "connection"));
  co_return co_await open_stream(application, exchange, target);
}

Task<Result<void>> open_helper_stream(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(check_stream_upgrade(exchange.request()));
  co_return co_await start_command(application, exchange, service::CommandKind::exec,
                                   service::parse_exec, relay_helper);
}

}  // namespace server
