#include "agent/answers.h"

#include "wire/json.h"

namespace agent {
namespace {

using wire::http::HeadBuilder;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

Task<Result<void>> write_json(net::Stream& stream, int status, std::string body) {
  const std::string head = HeadBuilder::response(status)
                               .add("content-type", "application/json")
                               .add_length(body.size())
                               .finish();
  co_return co_await stream.write_all(head, body, kAnswerPatience);
}

Task<Result<void>> write_no_content(net::Stream& stream) {
  const std::string head = HeadBuilder::response(204).finish();
  co_return co_await stream.write_all(head, kAnswerPatience);
}

Task<Result<void>> write_error(net::Stream& stream, base::Error error, std::string request_id,
                               bool head_only, bool keep) {
  if (error.code == ErrorCode::io) {
    error.code = ErrorCode::agent_failed;
  }
  const std::string body = wire::json::error_body(error, request_id);
  HeadBuilder head = HeadBuilder::response(base::http_status(error.code));
  head.add("content-type", "application/json").add_length(body.size());
  if (error.code == ErrorCode::overloaded) {
    head.add("retry-after", "1");
  }
  if (error.code == ErrorCode::range_not_satisfiable) {
    for (const auto& [key, value] : error.details) {
      if (key == "size") {
        head.add("content-range", base::cat("bytes */", value));
      }
    }
  }
  if (!keep) {
    head.add("connection", "close");
  }
  const std::string text = head.finish();
  co_return co_await stream.write_all(text, head_only ? "" : body, kAnswerPatience);
}

Task<Result<void>> ask_for_body(net::Stream& stream, const wire::http::Request& request) {
  if (!request.expect_continue) {
    co_return Result<void>{};
  }
  co_return co_await stream.write_all(kContinue, kAnswerPatience);
}

Task<Result<std::string>> read_body(net::Stream& stream, net::HttpReader& reader,
                                    const wire::http::Request& request, size_t bytes_max) {
  if (request.content_length <= bytes_max) {
    CO_RETURN_IF_ERROR(co_await ask_for_body(stream, request));
  }
  co_return co_await reader.read_whole_body(bytes_max, kBodyPatience);
}

bool connection_is_lost(ErrorCode code) {
  return code == ErrorCode::connection_closed || code == ErrorCode::cancelled ||
         code == ErrorCode::deadline_exceeded;
}

}  // namespace agent
