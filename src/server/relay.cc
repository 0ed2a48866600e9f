#include "server/relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>

#include "server/body_pump.h"
#include "server/client_watch.h"
#include "wire/json.h"

namespace server {
namespace {

using service::AgentChannel;
using service::LivePtr;
using wire::http::BodyKind;
using wire::http::HeadBuilder;

// A silent run is answered with a blank every 15 s, so an agent that is silent for this long hangs
// (a sandbox with a hundredth of a cpu needs its time).
constexpr base::Milliseconds kRunPatience{300'000};
// For the answer of an agent that stopped taking a body.
constexpr base::Milliseconds kEarlyAnswerPatience{5'000};
// A pooled connection may have been closed by an agent that had enough of it; a fresh one is not.
constexpr int kTries = 2;

// Statuses that an agent may answer with; another one (401, 302) would speak for the gateway.
bool is_agent_status(int status) {
  static constexpr std::array kKnown{200, 206, 304, 400, 403, 404, 408, 409,
                                     413, 416, 422, 429, 431, 500, 503, 507};
  return std::ranges::find(kKnown, status) != kKnown.end();
}

// Of a request to the agent.
HeadBuilder agent_head(const Exchange& exchange, std::string_view method, std::string_view target) {
  HeadBuilder head = HeadBuilder::request(method, target);
  head.add("host", "agent").add("x-request-id", exchange.request_id());
  return head;
}

Task<Result<wire::http::Response>> read_answer(AgentChannel& channel, std::string_view method,
                                               net::Deadline deadline) {
  CO_ASSIGN_OR_RETURN(auto response, co_await channel.reader().read_response(method, deadline));
  if (!is_agent_status(response.status)) {
    co_return base::fail(ErrorCode::agent_failed, "it answered with status ", response.status);
  }
  co_return response;
}

// Sends head and body and reads the answer's head. An agent that closes while it is still being
// written to may have answered before.
Task<Result<wire::http::Response>> ask(AgentChannel& channel, std::string_view method,
                                       std::string_view head, std::string_view body,
                                       net::Deadline deadline) {
  const auto sent = co_await channel.stream().write_all(head, body, kAgentPatience);
  if (!sent && sent.error().code != ErrorCode::connection_closed) {
    co_return std::unexpected(sent.error());
  }
  co_return co_await read_answer(channel, method, deadline);
}

bool may_keep(const wire::http::Response& response, AgentChannel& channel) {
  return response.keep_alive && channel.reader().body_finished() &&
         !channel.reader().has_buffered();
}

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
    only_blanks = only_blanks && piece->find_first_not_of(' ') == std::string_view::npos;
    CO_RETURN_IF_ERROR(co_await writer.write_chunk(*piece));
  }
  co_return co_await writer.finish_chunks();
}

Task<Result<void>> relay_json(Exchange& exchange, AgentChannel& channel,
                              const wire::http::Response& response) {
  auto head = exchange.start_head(response.status);
  head.add("content-type", "application/json");
  if (response.body == BodyKind::none || response.content_length <= kWholeAnswerBytesMax) {
    CO_ASSIGN_OR_RETURN(const std::string body, co_await channel.reader().read_whole_body(
                                                    kWholeAnswerBytesMax, kAgentPatience));
    head.add_length(body.size());
    co_return co_await exchange.answer_whole(std::move(head), response.status, body);
  }
  head.add_length(response.content_length);
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), response.status));
  co_return co_await pump_body(channel.stream(), channel.reader(), exchange.client(),
                               Framing::plain, kWritePatience);
}

// Any JSON of the agent, by length or in chunks.
Task<Result<void>> relay_any_json(Exchange& exchange, AgentChannel& channel,
                                  const wire::http::Response& response) {
  if (response.body == BodyKind::length || response.body == BodyKind::none) {
    co_return co_await relay_json(exchange, channel, response);
  }
  auto head = exchange.start_head(response.status);
  head.add("content-type", "application/json").add_chunked();
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), response.status));
  co_return co_await pump_body(channel.stream(), channel.reader(), exchange.client(),
                               Framing::chunked, kWritePatience);
}

// Before a head was sent an agent's failure can still be told.
Result<void> blame_agent(const Exchange& exchange, const service::Live& live, Result<void> done) {
  if (done || exchange.status() != 0) {
    return done;
  }
  return std::unexpected(service::Sandboxes::agent_error(live, done.error()));
}

HeadBuilder file_head(const Exchange& exchange, const wire::http::Response& response) {
  auto head = exchange.start_head(response.status);
  head.add("content-type", "application/octet-stream").add("content-disposition", "attachment");
  for (const std::string_view name :
       {"etag", "last-modified", "accept-ranges", "content-range", "x-file-mode", "x-file-owner"}) {
    if (const std::string* value = response.find(name)) {
      head.add(name, *value);
    }
  }
  return head;
}

Task<Result<void>> relay_bytes(Exchange& exchange, AgentChannel& channel,
                               const wire::http::Response& response) {
  auto head = file_head(exchange, response);
  const bool is_chunked =
      response.body == BodyKind::chunked || response.body == BodyKind::until_close;
  if (is_chunked) {
    head.add_chunked();
  } else if (response.status != 304) {
    head.add_length(response.content_length);
  }
  if (!is_chunked && response.content_length <= kWholeAnswerBytesMax) {
    CO_ASSIGN_OR_RETURN(const std::string body, co_await channel.reader().read_whole_body(
                                                    kWholeAnswerBytesMax, kAgentPatience));
    co_return co_await exchange.answer_whole(std::move(head), response.status, body);
  }
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), response.status));
  co_return co_await pump_body(channel.stream(), channel.reader(), exchange.client(),
                               is_chunked ? Framing::chunked : Framing::plain, kWritePatience);
}

void end_channel(AgentChannel& channel) { ::shutdown(channel.stream().fd(), SHUT_RDWR); }

// One try; nullopt: the pooled connection was stale and nothing was answered.
Task<Result<bool>> try_run(Application& application, Exchange& exchange, const LivePtr& live,
                           std::string_view head, std::string_view body, bool is_last) {
  auto connected = co_await application.sandboxes.connect(live->row.id);
  if (!connected) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, connected.error()));
  }
  AgentChannel& channel = *connected;
  const ClientWatch watch(exchange.client(), [&channel] { end_channel(channel); });
  const auto response =
      co_await ask(channel, "POST", head, body, net::Deadline::after(kRunPatience));
  if (watch.gone()) {
    exchange.abandon();
    co_return true;
  }
  if (!response) {
    if (!is_last && response.error().code == ErrorCode::connection_closed) {
      co_return false;
    }
    co_return std::unexpected(service::Sandboxes::agent_error(*live, response.error()));
  }
  const bool is_stream = response->status == 200 && response->body != BodyKind::length;
  Result<void> done;
  if (is_stream) {
    done = co_await relay_run_chunks(exchange, channel, *live);
  } else {
    done = co_await relay_any_json(exchange, channel, *response);
  }
  CO_RETURN_IF_ERROR(blame_agent(exchange, *live, std::move(done)));
  if (may_keep(*response, channel)) {
    channel.keep();
  }
  co_return true;
}

Task<Result<bool>> try_read(Application& application, Exchange& exchange, const LivePtr& live,
                            std::string_view head, FileAnswer answer, bool is_last) {
  auto connected = co_await application.sandboxes.connect(live->row.id);
  if (!connected) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, connected.error()));
  }
  AgentChannel& channel = *connected;
  const std::string& method = exchange.request().method;
  const auto response =
      co_await ask(channel, method, head, {}, net::Deadline::after(kAgentPatience));
  if (!response) {
    if (!is_last && response.error().code == ErrorCode::connection_closed) {
      co_return false;
    }
    co_return std::unexpected(service::Sandboxes::agent_error(*live, response.error()));
  }
  constexpr int kFirstError = 400;
  Result<void> done;
  if (answer == FileAnswer::json || response->status >= kFirstError) {
    done = co_await relay_any_json(exchange, channel, *response);
  } else {
    done = co_await relay_bytes(exchange, channel, *response);
  }
  CO_RETURN_IF_ERROR(blame_agent(exchange, *live, std::move(done)));
  if (may_keep(*response, channel)) {
    channel.keep();
  }
  co_return true;
}

// Notices an agent that answers while it is still being sent a body: sending then ends at once.
class EarlyAnswer {
 public:
  explicit EarlyAnswer(net::Stream& stream) : stream_(stream) {
    stream_.loop().watch(stream_.fd(), net::EventLoop::Direction::read, [this] {
      came_ = true;
      stream_.shutdown_write();
    });
  }
  EarlyAnswer(const EarlyAnswer&) = delete;
  EarlyAnswer& operator=(const EarlyAnswer&) = delete;
  ~EarlyAnswer() {
    if (!came_) {
      stream_.loop().unwatch(stream_.fd(), net::EventLoop::Direction::read);
    }
  }
  [[nodiscard]] bool came() const { return came_; }

 private:
  net::Stream& stream_;
  bool came_ = false;
};

// The client's body to the agent: false when the agent did not take all of it.
Task<Result<bool>> send_body(Exchange& exchange, AgentChannel& channel) {
  const bool is_chunked = exchange.request().body == BodyKind::chunked;
  const EarlyAnswer early(channel.stream());
  const auto sent =
      co_await pump_body(exchange.client(), exchange.reader(), channel.stream(),
                         is_chunked ? Framing::chunked : Framing::plain, kBodyPatience);
  if (early.came() || (!sent && sent.error().code == ErrorCode::connection_closed)) {
    co_return false;
  }
  if (!sent && sent.error().code == ErrorCode::deadline_exceeded) {
    co_return base::fail(ErrorCode::request_timeout, "the body stopped arriving");
  }
  CO_RETURN_IF_ERROR(sent);
  co_return true;
}

}  // namespace

Task<Result<void>> relay_run(Application& application, Exchange& exchange, LivePtr live,
                             std::string body) {
  auto builder = agent_head(exchange, "POST", "/run");
  const std::string head =
      builder.add("content-type", "application/json").add_length(body.size()).finish();
  for (int attempt = 1; attempt <= kTries; ++attempt) {
    CO_ASSIGN_OR_RETURN(const bool done, co_await try_run(application, exchange, live, head, body,
                                                          attempt == kTries));
    if (done) {
      break;
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> relay_file_read(Application& application, Exchange& exchange, LivePtr live,
                                   std::string target, FileAnswer answer) {
  auto builder = agent_head(exchange, exchange.request().method, target);
  for (const std::string_view name : {"range", "if-range", "if-none-match", "if-modified-since"}) {
    if (const std::string* value = exchange.request().find(name)) {
      builder.add(name, *value);
    }
  }
  const std::string head = builder.finish();
  for (int attempt = 1; attempt <= kTries; ++attempt) {
    CO_ASSIGN_OR_RETURN(const bool done, co_await try_read(application, exchange, live, head,
                                                           answer, attempt == kTries));
    if (done) {
      break;
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> relay_file_write(Application& application, Exchange& exchange, LivePtr live,
                                    std::string target) {
  auto connected = co_await application.sandboxes.connect(live->row.id);
  if (!connected) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, connected.error()));
  }
  AgentChannel& channel = *connected;
  auto builder = agent_head(exchange, "PUT", target);
  const wire::http::Request& request = exchange.request();
  if (request.body == BodyKind::chunked) {
    builder.add_chunked();
  } else {
    builder.add_length(request.content_length);
  }
  if (const auto sent = co_await channel.stream().write_all(builder.finish(), kAgentPatience);
      !sent) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, sent.error()));
  }
  CO_RETURN_IF_ERROR(co_await exchange.allow_body());
  CO_ASSIGN_OR_RETURN(const bool whole, co_await send_body(exchange, channel));
  if (!whole) {
    exchange.close_after();
  }
  const ClientWatch watch(exchange.client(), [&channel] { end_channel(channel); });
  const auto response = co_await read_answer(
      channel, "PUT", net::Deadline::after(whole ? kAgentPatience : kEarlyAnswerPatience));
  if (watch.gone()) {
    exchange.abandon();
    co_return Result<void>{};
  }
  if (!response) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, response.error()));
  }
  auto done = co_await relay_any_json(exchange, channel, *response);
  CO_RETURN_IF_ERROR(blame_agent(exchange, *live, std::move(done)));
  if (whole && may_keep(*response, channel)) {
    channel.keep();
  }
  co_return Result<void>{};
}

}  // namespace server
