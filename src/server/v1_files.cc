// /api/v1: one file in, one file out, on the same agent routes as ours.
#include <algorithm>

#include "server/agent_answer.h"
#include "server/audit_record.h"
#include "server/handlers.h"
#include "server/v1_answer.h"
#include "wire/json.h"

namespace server {
namespace {

using wire::http::Response;

// These clients write a blank in a query as '+' (and a plus as %2B), unlike ours.
Result<std::string> path_parameter(const Exchange& exchange) {
  for (const std::string_view part : base::split(exchange.request().query, '&')) {
    const size_t equals = std::min(part.find('='), part.size());
    if (base::percent_decode(part.substr(0, equals)) == "path") {
      std::string value(part.substr(std::min(equals + 1, part.size())));
      std::ranges::replace(value, '+', ' ');
      if (auto path = base::percent_decode(value)) {
        return std::move(*path);
      }
    }
  }
  return std::unexpected(Error{.code = ErrorCode::missing_field,
                               .message = "'path' is required",
                               .details = {{"field", "path"}}});
}

Result<std::string> file_target(Exchange& exchange) {
  RETURN_IF_ERROR(exchange.check_parameters({"path"}));
  ASSIGN_OR_RETURN(const std::string path, path_parameter(exchange));
  exchange.note("path", service::audit_text(path));
  return base::cat("/files?path=", base::percent_encode(path));
}

Task<Result<void>> relay_content(Exchange& exchange, AgentChannel& channel,
                                 const service::Live& /*live*/, const Response& response) {
  if (response.status != 200) {
    return v1_answer_agent_error(exchange, channel, response);
  }
  exchange.note("bytes", response.content_length);
  auto head = exchange.start_head(response.status);
  head.add("content-type", "application/octet-stream").add("content-disposition", "attachment");
  return relay_bytes(exchange, channel, response, std::move(head));
}

Task<Result<void>> relay_success(Exchange& exchange, AgentChannel& channel,
                                 const service::Live& /*live*/, const Response& response) {
  if (response.status != 200) {
    co_return co_await v1_answer_agent_error(exchange, channel, response);
  }
  CO_RETURN_IF_ERROR(
      co_await channel.reader().read_whole_body(kWholeAnswerBytesMax, kAgentPatience));
  co_return co_await exchange.answer_json(200, "{\"success\":true}");
}

}  // namespace

Task<Result<void>> v1_answer_agent_error(Exchange& exchange, AgentChannel& channel,
                                         const Response& response) {
  CO_ASSIGN_OR_RETURN(const std::string body, co_await channel.reader().read_whole_body(
                                                  kWholeAnswerBytesMax, kAgentPatience));
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader outer(object);
  CO_ASSIGN_OR_RETURN(const auto inner, outer.required<wire::json::Object>("error"));
  wire::json::Reader reader(inner, "error");
  CO_ASSIGN_OR_RETURN(const auto code, reader.required<std::string>("code"));
  CO_ASSIGN_OR_RETURN(auto message, reader.required<std::string>("message"));
  Error error{.code = ErrorCode::agent_failed, .message = std::move(message)};
  if (!base::parse_error_code(code, error.code) ||
      base::http_status(error.code) != response.status) {
    co_return base::fail(ErrorCode::agent_failed, "its error '", code, "' is not known");
  }
  note_error(exchange, error);
  co_return co_await exchange.answer_error(std::move(error));
}

Task<Result<void>> v1_read_file(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(const std::string target, file_target(exchange));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_RETURN_IF_ERROR(co_await exchange.read_body(0));
  co_return co_await ask_agent(application, exchange, use.live(),
                               {.method = "GET",
                                .head = agent_head(exchange, "GET", target).finish(),
                                .patience = kAgentPatience},
                               relay_content);
}

Task<Result<void>> v1_write_file(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(const std::string target, file_target(exchange));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(BodySource body, BodySource::open(exchange));
  co_return co_await upload_to_agent(application, exchange, use.live(), body,
                                     {.method = "PUT",
                                      .head = agent_head(exchange, "PUT", target),
                                      .body_patience = kBodyPatience,
                                      .patience = kAgentPatience},
                                     relay_success);
}

}  // namespace server
