#include "server/agent_answer.h"

#include <array>

#include "server/audit_record.h"
#include "server/body_pump.h"
#include "server/content_stream.h"

namespace server {

using wire::http::BodyKind;
using wire::http::HeadBuilder;

namespace {

constexpr int kNoContent = 204;
constexpr int kNotModified = 304;

// Takes what still comes for a moment of a client whose switched connection is over: closing with
// bytes unread would reset it, and the client would lose the last ones it was sent.
Task<void> drain_client(net::Stream& client) {
  client.shutdown_write();
  const net::Deadline deadline = net::Deadline::after(kDrainPatience);
  std::array<char, 1024> rest;
  for (size_t seen = 0; seen < kDrainBytesMax;) {
    const auto size = co_await client.read_some(rest, deadline);
    if (!size || *size == 0) {
      co_return;
    }
    seen += *size;
  }
}

}  // namespace

Task<Result<void>> relay_bytes(Exchange& exchange, AgentChannel& channel,
                               const wire::http::Response& response, HeadBuilder head,
                               base::Milliseconds patience, LookAtBody look) {
  // The answer to a HEAD has no body, and says how the one of a GET would come.
  const bool is_chunked = response.body == BodyKind::chunked ||
                          response.body == BodyKind::until_close ||
                          response.find("transfer-encoding") != nullptr;
  if (is_chunked) {
    head.add_chunked();
  } else if (response.status != kNotModified) {
    head.add_length(response.content_length);
  }
  if (exchange.request().method == "HEAD") {
    co_return co_await exchange.begin_answer(std::move(head), response.status);
  }
  if (!is_chunked && response.content_length <= kWholeAnswerBytesMax) {
    CO_ASSIGN_OR_RETURN(const std::string body, co_await channel.reader().read_whole_body(
                                                    kWholeAnswerBytesMax, kAgentPatience));
    if (look != nullptr) {
      look(exchange, body);
    }
    co_return co_await exchange.answer_whole(std::move(head), response.status, body);
  }
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), response.status));
  if (look != nullptr && !is_chunked) {
    CO_ASSIGN_OR_RETURN(const std::string_view first,
                        co_await channel.reader().read_body(net::Deadline::after(kAgentPatience)));
    look(exchange, first);
    CO_RETURN_IF_ERROR(co_await exchange.client().write_all(first, kWritePatience));
  }
  co_return co_await pump_body(channel.stream(), channel.reader(), exchange.client(),
                               is_chunked ? Framing::chunked : Framing::plain, patience);
}

Task<Result<void>> relay_coded(Exchange& exchange, AgentChannel& channel,
                               const wire::http::Response& response, HeadBuilder head,
                               Coding coding) {
  head.add("content-encoding", coding_name(coding)).add("vary", "accept-encoding");
  net::HttpReader& reader = channel.reader();
  head.add_chunked();
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), response.status));
  net::HttpWriter writer(exchange.client(), kWritePatience);
  const auto encoder = ContentEncoder::make(coding);
  uint64_t total = 0;
  while (!reader.body_finished()) {
    CO_ASSIGN_OR_RETURN(const auto plain,
                        co_await reader.read_body(net::Deadline::after(kAgentPatience)));
    total += plain.size();
    auto add = [&encoder, plain] { return encoder->add(plain); };
    const auto coded = co_await exchange.code(total, add);
    if (!coded.empty()) {  // an empty chunk would end the body
      CO_RETURN_IF_ERROR(co_await writer.write_chunk(coded));
    }
  }
  CO_RETURN_IF_ERROR(co_await writer.write_chunk(encoder->finish()));
  co_return co_await writer.finish_chunks();
}

Task<Result<void>> join_to_agent(Exchange& exchange, AgentChannel& channel, HeadBuilder head,
                                 net::HalfClose half_close) {
  CO_RETURN_IF_ERROR(co_await exchange.switch_protocols(std::move(head)));
  co_await net::pump_both(
      {.stream = exchange.client(), .read_ahead = exchange.reader().take_buffered()},
      {.stream = channel.stream(), .read_ahead = channel.reader().take_buffered()}, half_close,
      kStreamPatience);
  co_await drain_client(exchange.client());
  co_return Result<void>{};
}

Task<Result<void>> relay_any_json(Exchange& exchange, AgentChannel& channel,
                                  const service::Live& /*live*/,
                                  const wire::http::Response& response) {
  if (response.status == kNoContent) {
    return exchange.answer_empty(kNoContent);
  }
  HeadBuilder head = exchange.start_head(response.status);
  head.add("content-type", "application/json");
  const bool is_start = exchange.audit().event == "session.start";
  const LookAtBody look = response.status >= kFirstErrorStatus ? note_agent_error
                          : is_start                           ? note_session_id
                                                               : nullptr;
  return relay_bytes(exchange, channel, response, std::move(head), kWritePatience, look);
}

}  // namespace server
