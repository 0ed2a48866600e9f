#include "server/agent_request.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/fault.h"
#include "net/task_group.h"
#include "server/audit_record.h"
#include "server/client_watch.h"
#include "service/containers.h"

namespace server {
namespace {

using wire::http::BodyKind;
using wire::http::HeadBuilder;

// For the answer of an agent that stopped taking a body.
constexpr base::Milliseconds kEarlyAnswerPatience{5'000};
// A pooled connection may have been closed by an agent that had enough of it; a fresh one is not.
constexpr int kTries = 2;

// Statuses that an agent may answer with; another one (401, 302) would speak for the gateway.
bool is_agent_status(int status) {
  static constexpr std::array kKnown{200, 201, 204, 206, 304, 400, 403, 404, 408,
                                     409, 413, 416, 422, 429, 431, 500, 503, 507};
  return std::ranges::find(kKnown, status) != kKnown.end();
}

Task<Result<wire::http::Response>> read_answer(AgentChannel& channel, std::string_view method,
                                               base::Milliseconds patience,
                                               bool may_upgrade = false) {
  CO_ASSIGN_OR_RETURN(auto response, co_await channel.reader().read_response(
                                         method, net::Deadline::after(patience)));
  const bool is_upgrade = may_upgrade && response.status == kSwitchingProtocols;
  if (!is_upgrade && !is_agent_status(response.status)) {
    co_return base::fail(ErrorCode::agent_failed, "it answered with status ", response.status);
  }
  co_return response;
}

// Sends head and body and reads the answer's head. An agent that closes while it is still being
// written to may have answered before.
Task<Result<wire::http::Response>> ask(AgentChannel& channel, const AgentRequest& request) {
  const auto sent = co_await channel.stream().write_all(request.head, request.body, kAgentPatience);
  if (!sent && sent.error().code != ErrorCode::connection_closed) {
    co_return std::unexpected(sent.error());
  }
  base::fault_point("gateway.relay.asked");
  co_return co_await read_answer(channel, request.method, request.patience, request.upgrades);
}

// Relays the answer; keeps the connection where it may be used again: not one on which the agent
// still waits for the rest of a body.
Task<Result<void>> relay_and_keep(Exchange& exchange, AgentChannel& channel,
                                  const service::Live& live, const wire::http::Response& response,
                                  RelayAnswer relay, bool sent_whole = true) {
  base::fault_point("gateway.relay.answered");
  const auto done = co_await relay(exchange, channel, live, response);
  base::fault_point("gateway.relay.told");
  if (!done) {
    // Once a head is out only the connection's end can tell of a failure.
    co_return std::unexpected(exchange.status() != 0
                                  ? done.error()
                                  : service::Sandboxes::agent_error(live, done.error()));
  }
  const bool is_http_still = response.status != kSwitchingProtocols;
  if (sent_whole && is_http_still && response.keep_alive && channel.reader().body_finished() &&
      !channel.reader().has_buffered()) {
    channel.keep();
  }
  co_return Result<void>{};
}

// What the body says, or the query, or a session's id.
Result<size_t> container_of(const Exchange& exchange, const service::SandboxRow& row) {
  ASSIGN_OR_RETURN(const auto asked, exchange.request().parameter("container"));
  const std::string& name = exchange.container().empty() && asked ? *asked : exchange.container();
  if (name.empty() && exchange.segment_count() > 1) {
    return service::container_of_session(row, exchange.segment(1));
  }
  return service::container_number(row, name);
}

Task<Result<AgentChannel>> connect(Application& application, const Exchange& exchange,
                                   const LivePtr& live) {
  CO_ASSIGN_OR_RETURN(const size_t container, container_of(exchange, live->row));
  auto connected = co_await application.sandboxes.connect(live->row.id, container);
  if (!connected) {
    // Another gateway may have ended it.
    co_await application.sandboxes.look(live->row.id, service::Sandboxes::Look::exact);
    co_return std::unexpected(service::Sandboxes::agent_error(*live, connected.error()));
  }
  co_return std::move(*connected);
}

// One try; false: the pooled connection was stale and nothing was answered.
Task<Result<bool>> try_ask(Application& application, Exchange& exchange, const LivePtr& live,
                           const AgentRequest& request, RelayAnswer relay, bool is_last) {
  CO_ASSIGN_OR_RETURN(AgentChannel channel, co_await connect(application, exchange, live));
  std::optional<ClientWatch> watch;
  if (request.client_cancels) {
    watch.emplace(exchange.client(), [&channel] { end_channel(channel); });
  }
  const auto response = co_await ask(channel, request);
  if (watch && watch->gone()) {
    exchange.abandon();
    co_return true;
  }
  if (!response) {
    if (!is_last && response.error().code == ErrorCode::connection_closed) {
      co_return false;
    }
    co_return std::unexpected(service::Sandboxes::agent_error(*live, response.error()));
  }
  const auto done = co_await relay_and_keep(exchange, channel, *live, *response, relay);
  if (watch && watch->gone()) {
    exchange.abandon();
    co_return true;
  }
  CO_RETURN_IF_ERROR(done);
  co_return true;
}

// Notices an agent that answers while it is still being sent a body.
class EarlyAnswer {
 public:
  EarlyAnswer(net::Stream& stream, net::TaskGroup& sending) : stream_(stream) {
    stream_.loop().watch(stream_.fd(), net::EventLoop::Direction::read, [this, &sending] {
      came_ = true;
      sending.cancel();
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

// All of the client's body, as the child of a group that ends it early.
Task<void> send_all(BodySource& body, net::Stream& to, Framing framing, base::Milliseconds patience,
                    Result<void>& sent) {
  sent = co_await body.pump(to, framing, patience);
}

enum class Sent { whole, cut, client_gone };

// The client's body to the agent. `cut`: the agent did not take all of it.
Task<Result<Sent>> send_body(Exchange& exchange, AgentChannel& channel, BodySource& body,
                             Framing framing, base::Milliseconds patience) {
  net::Cancellation* const parent = co_await net::current_cancellation();
  Result<void> sent;
  bool is_early = false;
  bool is_gone = false;
  {
    net::TaskGroup sending(exchange.client().loop(), parent);
    const EarlyAnswer early(channel.stream(), sending);
    const HangUpWatch hang_up(exchange.client(), [&sending] { sending.cancel(); });
    sending.spawn(send_all(body, channel.stream(), framing, patience, sent));
    co_await sending.join();
    is_early = early.came();
    is_gone = hang_up.gone();
  }
  if (sent) {
    co_return Sent::whole;
  }
  if (is_gone || has_hung_up(exchange.client())) {
    co_return Sent::client_gone;
  }
  if (is_early || sent.error().code == ErrorCode::connection_closed) {
    co_return Sent::cut;
  }
  if (sent.error().code == ErrorCode::deadline_exceeded) {
    co_return base::fail(ErrorCode::request_timeout, "the body stopped arriving");
  }
  co_return std::unexpected(std::move(sent).error());
}

// How the agent is told where the body ends.
Framing add_framing(HeadBuilder& head, const BodySource& body, size_t first) {
  if (const auto rest = body.known_rest()) {
    head.add_length(first + *rest);
    return Framing::plain;
  }
  head.add_chunked();
  return Framing::chunked;
}

}  // namespace

HeadBuilder agent_head(const Exchange& exchange, std::string_view method, std::string_view target) {
  HeadBuilder head = HeadBuilder::request(method, target);
  head.add("host", "agent").add("x-request-id", exchange.request_id());
  return head;
}

void end_channel(AgentChannel& channel) { ::shutdown(channel.stream().fd(), SHUT_RDWR); }

Task<Result<void>> ask_agent(Application& application, Exchange& exchange, LivePtr live,
                             AgentRequest request, RelayAnswer relay) {
  begin_action(application, exchange);
  base::fault_point("gateway.relay.begun");
  for (int attempt = 1; attempt <= kTries; ++attempt) {
    CO_ASSIGN_OR_RETURN(const bool done, co_await try_ask(application, exchange, live, request,
                                                          relay, attempt == kTries));
    if (done) {
      break;
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> upload_to_agent(Application& application, Exchange& exchange, LivePtr live,
                                   BodySource& body, AgentUpload upload, RelayAnswer relay) {
  begin_action(application, exchange);
  base::fault_point("gateway.relay.begun");
  CO_ASSIGN_OR_RETURN(AgentChannel channel, co_await connect(application, exchange, live));
  const Framing framing = add_framing(upload.head, body, upload.first.size());
  if (framing == Framing::chunked && !upload.first.empty()) {
    upload.first = base::cat(wire::http::chunk_head(upload.first.size()), upload.first, "\r\n");
  }
  const auto begun =
      co_await channel.stream().write_all(upload.head.finish(), upload.first, kAgentPatience);
  if (!begun && begun.error().code != ErrorCode::connection_closed) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, begun.error()));
  }
  CO_RETURN_IF_ERROR(co_await exchange.allow_body());
  CO_ASSIGN_OR_RETURN(const Sent sent,
                      co_await send_body(exchange, channel, body, framing, upload.body_patience));
  base::fault_point("gateway.relay.asked");
  if (sent != Sent::whole) {
    exchange.close_after();
  }
  const ClientWatch watch(exchange.client(), [&channel] { end_channel(channel); });
  if (sent == Sent::client_gone || watch.gone()) {
    exchange.abandon();
    co_return Result<void>{};
  }
  const auto response = co_await read_answer(
      channel, upload.method, sent == Sent::whole ? upload.patience : kEarlyAnswerPatience);
  if (watch.gone()) {
    exchange.abandon();
    co_return Result<void>{};
  }
  if (!response) {
    co_return std::unexpected(service::Sandboxes::agent_error(*live, response.error()));
  }
  co_return co_await relay_and_keep(exchange, channel, *live, *response, relay,
                                    sent == Sent::whole);
}

}  // namespace server
