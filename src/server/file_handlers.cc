#include <algorithm>

#include "server/handlers.h"
#include "server/relay_files.h"

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

// Checks the parameters of a file route and gives the agent's target, `path` with the query.
Result<std::string> file_target(const Exchange& exchange, std::string_view route,
                                std::initializer_list<std::string_view> known) {
  RETURN_IF_ERROR(exchange.check_parameters(known));
  ASSIGN_OR_RETURN(const auto path, exchange.request().parameter("path"));
  RETURN_IF_ERROR(check_path(path));
  std::string target(route);
  char separator = '?';
  for (const std::string_view part : base::split(exchange.request().query, '&')) {
    // The agent serves one container and knows no such parameter.
    if (!part.starts_with("container=")) {
      target += base::cat(separator, part);
      separator = '&';
    }
  }
  return target;
}

// A request without a body that changes something.
Task<Result<void>> change(Application& application, Exchange& exchange, const std::string& target) {
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_file_change(application, exchange, use.live(), target);
}

// What would make it another upload than that of the whole file, whatever is there: not built, and
// to go on without it would lose what it is there to save.
Result<void> check_put_conditions(const Exchange& exchange) {
  for (const std::string_view name :
       {"content-range", "if-match", "if-none-match", "if-unmodified-since"}) {
    if (exchange.request().find(name) != nullptr) {
      return std::unexpected(
          base::Error{.code = base::ErrorCode::not_supported,
                      .message = base::cat("an upload replaces the whole file: it takes no ", name),
                      .details = {{"field", std::string(name)}}});
    }
  }
  return {};
}

}  // namespace

Task<Result<void>> get_file(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target,
                      file_target(exchange, "/files",
                                  {"container", "path", "user", "list", "depth", "stat", "tar"}));
  CO_ASSIGN_OR_RETURN(const bool is_list, exchange.flag_parameter("list"));
  CO_ASSIGN_OR_RETURN(const bool is_stat, exchange.flag_parameter("stat"));
  if (is_list) {
    exchange.audit().event = "file.list";
  }
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_file_read(application, exchange, use.live(), target,
                                     is_list || is_stat ? FileAnswer::json : FileAnswer::bytes);
}

Task<Result<void>> put_file(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(check_put_conditions(exchange));
  CO_ASSIGN_OR_RETURN(auto target, file_target(exchange, "/files",
                                               {"container", "path", "user", "mode", "owner", "tar",
                                                "preserve_owner"}));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  co_return co_await relay_file_write(application, exchange, use.live(), target);
}

Task<Result<void>> delete_file(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target,
                      file_target(exchange, "/files", {"container", "path", "user", "recursive"}));
  co_return co_await change(application, exchange, target);
}

Task<Result<void>> make_folder(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target, file_target(exchange, "/files/mkdir",
                                               {"container", "path", "user", "mode", "owner"}));
  co_return co_await change(application, exchange, target);
}

Task<Result<void>> move_file(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target, file_target(exchange, "/files/move",
                                               {"container", "path", "to", "user", "overwrite"}));
  co_return co_await change(application, exchange, target);
}

Task<Result<void>> watch_files(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target, file_target(exchange, "/files/watch",
                                               {"container", "path", "user", "recursive"}));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  exchange.mark_endless();
  co_return co_await relay_file_watch(application, exchange, use.live(), target);
}

Task<Result<void>> change_file_mode(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto target,
                      file_target(exchange, "/files/chmod",
                                  {"container", "path", "user", "mode", "owner", "recursive"}));
  co_return co_await change(application, exchange, target);
}

}  // namespace server
