#include "server/relay_exec.h"

#include <algorithm>

#include "server/agent_answer.h"

namespace server {
namespace {

using wire::http::BodyKind;
using wire::http::HeadBuilder;
using wire::http::Response;

constexpr int kExitCodeMax = 255;
constexpr size_t kSignalBytesMax = 16;  // "RTMAX-14"

template <typename T>
Result<T> number_of(const Response& response, std::string_view name, T most) {
  const std::string* text = response.find(name);
  const auto value = text == nullptr ? std::nullopt : base::parse_number<T>(*text);
  if (!value || *value < 0 || *value > most) {
    return base::fail(ErrorCode::agent_failed, "its ", name, " is missing or broken");
  }
  return *value;
}

Result<void> check_flag(const Response& response, std::string_view name) {
  const std::string* text = response.find(name);
  if (text == nullptr || (*text != "true" && *text != "false")) {
    return base::fail(ErrorCode::agent_failed, "its ", name, " is missing or broken");
  }
  return {};
}

Result<void> check_signal(const Response& response) {
  const std::string* text = response.find("x-signal");
  const auto fine = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
  };
  if (text != nullptr &&
      (text->empty() || text->size() > kSignalBytesMax || !std::ranges::all_of(*text, fine))) {
    return base::fail(ErrorCode::agent_failed, "its x-signal is broken");
  }
  return {};
}

// The exit code, once all that the client will rely on has its form.
Result<int> check_outcome(const Response& response) {
  ASSIGN_OR_RETURN(const auto out, number_of<int64_t>(response, "x-stdout-length", INT64_MAX));
  ASSIGN_OR_RETURN(const auto err, number_of<int64_t>(response, "x-stderr-length", INT64_MAX));
  if (response.body != BodyKind::length ||
      response.content_length != static_cast<uint64_t>(out) + static_cast<uint64_t>(err)) {
    return base::fail(ErrorCode::agent_failed, "the lengths of its outputs do not fit its body");
  }
  RETURN_IF_ERROR(number_of<int64_t>(response, "x-duration-ms", INT64_MAX));
  for (const std::string_view name : {"x-timed-out", "x-oom-killed", "x-truncated"}) {
    RETURN_IF_ERROR(check_flag(response, name));
  }
  RETURN_IF_ERROR(check_signal(response));
  return number_of<int>(response, "x-return-code", kExitCodeMax);
}

HeadBuilder outcome_head(const Exchange& exchange, const Response& response) {
  HeadBuilder head = exchange.start_head(response.status);
  head.add("content-type", "application/octet-stream").add("content-disposition", "attachment");
  for (const std::string_view name :
       {"X-Stdout-Length", "X-Stderr-Length", "X-Return-Code", "X-Timed-Out", "X-Signal",
        "X-Oom-Killed", "X-Truncated", "X-Duration-Ms"}) {
    if (const std::string* value = response.find(base::lower(name))) {
      head.add(name, *value);
    }
  }
  return head;
}

// The output with a coding: whole where it is small, in chunks otherwise.
Task<Result<void>> relay_coded_output(Exchange& exchange, AgentChannel& channel,
                                      const Response& response, HeadBuilder head, Coding coding) {
  if (response.content_length <= kWholeAnswerBytesMax) {
    head.add("content-encoding", coding_name(coding)).add("vary", "accept-encoding");
    CO_ASSIGN_OR_RETURN(const std::string plain, co_await channel.reader().read_whole_body(
                                                     kWholeAnswerBytesMax, kAgentPatience));
    const std::string body = encode_content(coding, plain);
    head.add_length(body.size());
    co_return co_await exchange.answer_whole(std::move(head), response.status, body);
  }
  co_return co_await relay_coded(exchange, channel, response, std::move(head), coding);
}

Task<Result<void>> relay_outcome(Exchange& exchange, AgentChannel& channel,
                                 const service::Live& live, const Response& response) {
  if (response.status != 200) {
    co_return co_await relay_any_json(exchange, channel, live, response);
  }
  CO_ASSIGN_OR_RETURN(const int exit_code, check_outcome(response));
  exchange.note_exit_code(exit_code);
  exchange.audit().bytes_out += static_cast<int64_t>(response.content_length);
  HeadBuilder head = outcome_head(exchange, response);
  const Coding coding = choose_coding(exchange.request().find("accept-encoding"));
  if (coding != Coding::identity && response.content_length >= kCompressBytesMin) {
    co_return co_await relay_coded_output(exchange, channel, response, std::move(head), coding);
  }
  co_return co_await relay_bytes(exchange, channel, response, std::move(head));
}

}  // namespace

Task<Result<std::string>> read_exec_line(BodySource& body, std::string& rest) {
  std::string line;
  for (;;) {
    CO_ASSIGN_OR_RETURN(const std::string_view piece, co_await body.next(kBodyPatience));
    const size_t newline = piece.find('\n');
    line += piece.substr(0, newline);
    if (line.size() >= kExecLineBytesMax) {
      co_return base::fail(ErrorCode::body_too_large, "the line of JSON exceeds ",
                           kExecLineBytesMax, " bytes");
    }
    if (newline != std::string_view::npos) {
      rest += piece.substr(newline + 1);
    }
    if (newline != std::string_view::npos || piece.empty()) {
      co_return line;
    }
  }
}

Task<Result<void>> relay_exec(Application& application, Exchange& exchange, LivePtr live,
                              BodySource& body, std::string first) {
  auto head = agent_head(exchange, "POST", "/exec");
  head.add("content-type", "application/octet-stream");
  return upload_to_agent(application, exchange, std::move(live), body,
                         {.method = "POST",
                          .head = std::move(head),
                          .first = std::move(first),
                          .body_patience = kStreamPatience,
                          .patience = kStreamPatience},
                         relay_outcome);
}

}  // namespace server
