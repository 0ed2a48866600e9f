#include "server/exchange.h"

#include <algorithm>

#include "server/content_coding.h"
#include "server/limits.h"
#include "server/v1_json.h"
#include "wire/json.h"

namespace server {

using wire::http::HeadBuilder;

bool is_of_store(const Error& error) {
  return (error.code == ErrorCode::internal || error.code == ErrorCode::unavailable ||
          error.code == ErrorCode::disk_full) &&
         error.message.find("database: ") != std::string::npos;
}

Error public_error(Error error) {
  // What the store says of its trouble names hosts, users and tables; the log has it.
  if (is_of_store(error)) {
    error.message = error.code == ErrorCode::disk_full     ? "the store's disk is full"
                    : error.code == ErrorCode::unavailable ? "the store does not answer"
                                                           : "the store failed";
  }
  switch (error.code) {
    case ErrorCode::io:
      // The message names files of ours; the log has it.
      return Error{.code = ErrorCode::internal, .message = "an internal error"};
    case ErrorCode::cancelled:
    case ErrorCode::deadline_exceeded:
      error.code = ErrorCode::unavailable;
      return error;
    case ErrorCode::connection_closed:
      error.code = ErrorCode::agent_failed;
      return error;
    default:
      return error;
  }
}

Result<bool> scope_parameter(const Exchange& exchange) {
  ASSIGN_OR_RETURN(const auto scope, exchange.request().parameter("scope"));
  if (scope && *scope != "all") {
    return base::fail_field("scope", "'scope' must be all");
  }
  return scope.has_value();
}

Result<void> Exchange::check_parameters(std::initializer_list<std::string_view> known) const {
  ASSIGN_OR_RETURN(const auto parameters, request_.parameters());
  std::vector<std::string_view> seen;
  for (const auto& [name, value] : parameters) {
    if (std::ranges::find(known, name) == known.end()) {
      auto error = base::fail(ErrorCode::unknown_field, "unknown query parameter '", name, "'");
      error.error().details.emplace_back("field", name);
      return error;
    }
    if (std::ranges::find(seen, name) != seen.end()) {
      return base::fail(ErrorCode::malformed, "query parameter '", name, "' is given twice");
    }
    seen.push_back(name);
    // The name of a file is bytes.
    const bool is_path = name == "path" || name == "to";
    if (!is_path && !base::is_utf8(value)) {
      return base::fail(ErrorCode::malformed, "query parameter '", name, "' is not UTF-8");
    }
  }
  return {};
}

Result<int64_t> Exchange::integer_parameter(std::string_view name, int64_t least, int64_t most,
                                            int64_t fallback) const {
  ASSIGN_OR_RETURN(const auto text, request_.parameter(name));
  if (!text) {
    return fallback;
  }
  const auto value = base::parse_number<int64_t>(*text);
  if (!value || *value < least || *value > most) {
    return base::fail_field(name, "'", name, "' must be an integer from ", least, " to ", most);
  }
  return *value;
}

Result<bool> Exchange::flag_parameter(std::string_view name) const {
  ASSIGN_OR_RETURN(const auto text, request_.parameter(name));
  if (!text || *text == "0" || *text == "false") {
    return false;
  }
  if (*text == "1" || *text == "true" || text->empty()) {
    return true;
  }
  return base::fail_field(name, "'", name, "' must be true or false");
}

Task<Result<void>> Exchange::allow_body() {
  if (!request_.expect_continue || body_allowed_) {
    co_return Result<void>{};
  }
  body_allowed_ = true;
  co_return co_await client_.write_all("HTTP/1.1 100 Continue\r\n\r\n", kWritePatience);
}

Task<Result<std::string>> Exchange::read_body(size_t bytes_max) {
  if (request_.body == wire::http::BodyKind::length && request_.content_length > bytes_max) {
    co_return base::fail(ErrorCode::body_too_large, "the body exceeds ", bytes_max, " bytes");
  }
  CO_RETURN_IF_ERROR(co_await allow_body());
  auto body = co_await reader_.read_whole_body(bytes_max, kBodyPatience);
  if (!body) {
    Error error = std::move(body).error();
    if (error.code == ErrorCode::deadline_exceeded) {
      error = Error{.code = ErrorCode::request_timeout, .message = "the body stopped arriving"};
    }
    if (error.code == ErrorCode::connection_closed) {
      abandon();
    }
    close_after();
    co_return std::unexpected(std::move(error));
  }
  const std::string* coding = request_.find("content-encoding");
  if (coding == nullptr) {
    co_return std::move(*body);
  }
  // A small body may become a large one.
  auto decode = [coding, &body, bytes_max] {
    return decode_content(*coding, std::move(*body), bytes_max);
  };
  co_return co_await code(bytes_max, decode);
}

HeadBuilder Exchange::start_head(int status) const {
  HeadBuilder head = HeadBuilder::response(status);
  head.add("x-request-id", request_id_).add("x-content-type-options", "nosniff");
  if (rate_left_.limit > 0) {
    head.add("ratelimit-limit", base::cat(rate_left_.limit));
    head.add("ratelimit-remaining", base::cat(rate_left_.remaining));
    head.add("ratelimit-reset", base::cat(rate_left_.reset_sec));
  }
  return head;
}

// The rest of the body is more than is read on for, or may be: a client that was not told would
// send its next request into a connection that is about to close.
bool Exchange::leaves_too_much() const {
  return !reader_.body_finished() && (request_.body == wire::http::BodyKind::chunked ||
                                      reader_.decoder().left() > kDrainBytesMax);
}

void Exchange::finish_head(HeadBuilder& head, int status) {
  answered_ = status;
  // A client that waits for 100 and got an answer instead may or may not send its body: only a new
  // connection is unambiguous.
  if ((request_.expect_continue && !body_allowed_) || leaves_too_much()) {
    keep_alive_ = false;
  }
  if (!keep_alive_) {
    head.add("connection", "close");
  }
}

Task<Result<void>> Exchange::begin_answer(HeadBuilder head, int status) {
  finish_head(head, status);
  co_return co_await client_.write_all(head.finish(), kWritePatience);
}

Task<Result<void>> Exchange::answer_whole(HeadBuilder head, int status, std::string_view body) {
  finish_head(head, status);
  const std::string text = head.finish();
  co_return co_await client_.write_all(text, is_head() ? std::string_view() : body, kWritePatience);
}

Task<Result<void>> Exchange::switch_protocols(HeadBuilder head) {
  constexpr int kSwitching = 101;
  answered_ = kSwitching;
  keep_alive_ = false;
  co_return co_await client_.write_all(head.finish(), kWritePatience);
}

Task<Result<void>> Exchange::answer_json(int status, std::string body, Headers headers) {
  HeadBuilder head = start_head(status);
  head.add("content-type", "application/json");
  const Coding coding = body.size() < kCompressBytesMin
                            ? Coding::identity
                            : choose_coding(request_.find("accept-encoding"));
  if (coding != Coding::identity) {
    auto encode = [coding, &body] { return encode_content(coding, body); };
    body = co_await code(body.size(), encode);
    head.add("content-encoding", coding_name(coding)).add("vary", "accept-encoding");
  }
  for (const auto& [name, value] : headers) {
    head.add(name, value);
  }
  head.add_length(body.size());
  co_return co_await answer_whole(std::move(head), status, body);
}

Task<Result<void>> Exchange::answer_text(int status, std::string_view type, std::string body) {
  HeadBuilder head = start_head(status);
  head.add("content-type", type).add_length(body.size());
  co_return co_await answer_whole(std::move(head), status, body);
}

Task<Result<void>> Exchange::answer_empty(int status, Headers headers) {
  HeadBuilder head = start_head(status);
  for (const auto& [name, value] : headers) {
    head.add(name, value);
  }
  constexpr int kNoContent = 204;
  if (status != kNoContent) {
    head.add_length(0);
  }
  co_return co_await answer_whole(std::move(head), status, {});
}

Task<Result<void>> Exchange::answer_error(Error error) {
  error = public_error(std::move(error));
  const int status = base::http_status(error.code);
  Headers headers;
  std::string retry_after = "1";
  for (const auto& [key, value] : error.details) {
    if (key == "allow") {
      headers.emplace_back("allow", value);
    } else if (key == "retry_after") {
      retry_after = value;
    }
  }
  if (error.code == ErrorCode::unauthenticated) {
    headers.emplace_back("www-authenticate", "Bearer");
  }
  if (error.code == ErrorCode::overloaded || error.code == ErrorCode::rate_limited ||
      error.code == ErrorCode::unavailable || error.code == ErrorCode::draining) {
    headers.emplace_back("retry-after", retry_after);
  }
  std::string body = is_v1_path(request_.path) ? v1_error_body(error, request_id_)
                                               : wire::json::error_body(error, request_id_);
  co_return co_await answer_json(status, std::move(body), std::move(headers));
}

}  // namespace server
