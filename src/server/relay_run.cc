#include "server/relay_run.h"

#include "server/agent_answer.h"
#include "server/audit_record.h"
#include "wire/json.h"

namespace server {
namespace {

using wire::http::BodyKind;

// A silent run is answered with a blank every 15 s, so an agent that is silent for this long hangs
// (a sandbox with a hundredth of a cpu needs its time).
constexpr base::Milliseconds kRunPatience{300'000};

// The body of a run whose sandbox ended after its 200 head was sent.
std::string lost_run(const Error& error, std::string_view request_id) {
  std::string body = wire::json::error_body(error, request_id);
  body.front() = ',';
  return base::cat("{\"exit_code\":null", body);
}

// Chunks of a run as they come: blanks that keep proxies awake, then the JSON.
Task<Result<void>> relay_run_chunks(Exchange& exchange, AgentChannel& channel,
                                    const service::Live& live) {
  auto head = exchange.start_head(200);
  head.add("content-type", "application/json").add_chunked();
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), 200));
  net::HttpWriter writer(exchange.client(), kWritePatience);
  bool only_blanks = true;
  for (;;) {
    const auto piece = co_await channel.reader().read_body(net::Deadline::after(kRunPatience));
    if (!piece) {
      if (!only_blanks) {
        co_return std::unexpected(piece.error());
      }
      const Error error = service::Sandboxes::agent_error(live, piece.error());
      CO_RETURN_IF_ERROR(co_await writer.write_chunk(lost_run(error, exchange.request_id())));
      break;
    }
    if (piece->empty()) {
      break;
    }
    if (only_blanks) {
      note_run_result(exchange, *piece);
    }
    only_blanks = only_blanks && piece->find_first_not_of(' ') == std::string_view::npos;
    CO_RETURN_IF_ERROR(co_await writer.write_chunk(*piece));
  }
  co_return co_await writer.finish_chunks();
}

Task<Result<void>> relay_run_answer(Exchange& exchange, AgentChannel& channel,
                                    const service::Live& live,
                                    const wire::http::Response& response) {
  const bool is_stream = response.status == 200 && response.body != BodyKind::length;
  if (is_stream) {
    return relay_run_chunks(exchange, channel, live);
  }
  auto head = exchange.start_head(response.status);
  head.add("content-type", "application/json");
  return relay_bytes(exchange, channel, response, std::move(head), kWritePatience, note_run_result);
}

}  // namespace

Task<Result<void>> relay_run(Application& application, Exchange& exchange, LivePtr live,
                             std::string body) {
  auto head = agent_head(exchange, "POST", "/run");
  head.add("content-type", "application/json").add_length(body.size());
  return ask_agent(application, exchange, std::move(live),
                   {.method = "POST",
                    .head = head.finish(),
                    .body = std::move(body),
                    .patience = kRunPatience,
                    .client_cancels = true},
                   relay_run_answer);
}

}  // namespace server
