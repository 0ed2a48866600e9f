#include "agent/service_routes.h"

#include "agent/answers.h"
#include "base/text.h"

namespace agent {
namespace {

constexpr int64_t kWaitSecondsMax = 300;

Result<int64_t> number_parameter(const wire::http::Request& request, std::string_view name,
                                 int64_t most) {
  ASSIGN_OR_RETURN(const auto text, request.parameter(name));
  const auto number = text ? base::parse_number<int64_t>(*text) : std::optional<int64_t>(0);
  if (!number || *number < 0 || *number > most) {
    return base::fail_field(name, "'", name, "' must be a number from 0 to ", most);
  }
  return *number;
}

}  // namespace

bool is_service_route(std::string_view path) {
  return path == "/service" || path == "/service/start" || path == "/service/stop";
}

net::Task<Result<void>> serve_service_route(Service& service, net::Stream& stream,
                                            const wire::http::Request& request) {
  const bool is_question = request.path == "/service";
  if (request.method != (is_question ? "GET" : "POST")) {
    co_return base::fail(ErrorCode::method_not_allowed, request.method, " is not allowed on ",
                         request.path);
  }
  if (request.path == "/service/start") {
    CO_RETURN_IF_ERROR(service.start());
  } else if (request.path == "/service/stop") {
    service.stop();
  } else {
    CO_ASSIGN_OR_RETURN(const int64_t version, number_parameter(request, "version", INT64_MAX));
    CO_ASSIGN_OR_RETURN(const int64_t wait, number_parameter(request, "wait", kWaitSecondsMax));
    if (wait > 0) {
      co_await service.wait_change(static_cast<uint64_t>(version),
                                   net::Deadline::after(std::chrono::seconds(wait)));
    }
  }
  co_return co_await write_json(stream, 200, service.json());
}

}  // namespace agent
