#include <algorithm>

#include "server/answers_json.h"
#include "server/handlers.h"
#include "server/relay.h"
#include "service/run_request.h"

namespace server {
namespace {

constexpr size_t kPathBytesMax = 4095;  // PATH_MAX without its NUL

// What the agent checks again; here it keeps a broken path from costing a connection.
Result<void> check_path(const std::optional<std::string>& path) {
  if (!path) {
    return std::unexpected(Error{.code = ErrorCode::missing_field,
                                 .message = "'path' is required",
                                 .details = {{"field", "path"}}});
  }
  const auto parts = base::split(*path, '/');
  const bool climbs = std::ranges::any_of(parts, [](auto part) { return part == ".."; });
  if (path->empty() || path->size() > kPathBytesMax || path->contains('\0') || climbs) {
    return std::unexpected(Error{.code = ErrorCode::path_invalid,
                                 .message = "'path' must not be empty or contain NUL or '..'",
                                 .details = {{"field", "path"}}});
  }
  return {};
}

// Checks the parameters of a file route and gives the agent's target.
Result<std::string> file_target(const Exchange& exchange,
                                std::initializer_list<std::string_view> known) {
  RETURN_IF_ERROR(exchange.check_parameters(known));
  ASSIGN_OR_RETURN(const auto path, exchange.request().parameter("path"));
  RETURN_IF_ERROR(check_path(path));
  ASSIGN_OR_RETURN(const bool is_tar, exchange.flag_parameter("tar"));
  if (is_tar) {
    return std::unexpected(Error{.code = ErrorCode::not_supported,
                                 .message = "'tar' is not supported yet",
                                 .details = {{"field", "tar"}}});
  }
  return base::cat("/files?", exchange.request().query);
}

}  // namespace

Task<Result<void>> sandbox_activity(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const service::LivePtr live =
      application.sandboxes.find_live(exchange.caller(), exchange.segment(0));
  if (!live) {
    co_return base::fail(ErrorCode::not_found, "sandbox '", exchange.segment(0),
                         "' does not exist");
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(
               wire::json::Object{{"last_activity_at", time_json(live->row.last_activity_ms)},
                                  {"lease_expires_at", time_json(live->row.lease_expires_ms)},
                                  {"running_commands", live->running_commands},
                                  {"sessions", 0}}));
}

Task<Result<void>> run_command(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(auto use, application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kRunBodyBytesMax));
  CO_ASSIGN_OR_RETURN(auto request, service::parse_run(std::move(body)));
  ++application.runs;
  application.log.debug("run", {{"sandbox", exchange.segment(0)},
                                {"request_id", exchange.request_id()},
                                {"argv", request.argv_text}});
  ++use.live()->running_commands;
  auto done = co_await relay_run(application, exchange, use.live(), std::move(request.body));
  --use.live()->running_commands;
  co_return done;
}

Task<Result<void>> get_file(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target, file_target(exchange, {"path", "user", "list", "depth", "tar"}));
  CO_ASSIGN_OR_RETURN(const bool is_list, exchange.flag_parameter("list"));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_file_read(application, exchange, use.live(), std::move(target),
                                     is_list ? FileAnswer::json : FileAnswer::bytes);
}

Task<Result<void>> put_file(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target, file_target(exchange, {"path", "user", "mode", "owner", "tar"}));
  const std::string* coding = exchange.request().find("content-encoding");
  if (coding != nullptr && !base::equals_ignoring_case(*coding, "identity")) {
    co_return base::fail(ErrorCode::not_supported,
                         "an upload with Content-Encoding is not supported yet");
  }
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_file_write(application, exchange, use.live(), std::move(target));
}

}  // namespace server
