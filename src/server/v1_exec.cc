// /api/v1: a command whose output streams as lines of JSON. The agent writes them (its POST
// /stream); here they pass as they are, and only the last one is looked at.
#include "server/agent_answer.h"
#include "server/handlers.h"
#include "server/v1_answer.h"
#include "service/v1_exec_request.h"

namespace server {
namespace {

using wire::http::Response;

// The agent sends a line every 15 s, so one that is silent for this long hangs (a sandbox with a
// hundredth of a cpu needs its time).
constexpr base::Milliseconds kStreamAnswerPatience{300'000};
// The last line: {"type":"done",...,"exitCode":0,"signal":null,...}.
constexpr size_t kLastLineBytesMax = 512;

// Keeps the end of a stream of lines.
class LastLine {
 public:
  void add(std::string_view bytes) {
    if (bytes.size() > kLastLineBytesMax) {
      bytes.remove_prefix(bytes.size() - kLastLineBytesMax);
    }
    tail_ += bytes;
    if (tail_.size() > kLastLineBytesMax) {
      tail_.erase(0, tail_.size() - kLastLineBytesMax);
    }
  }
  [[nodiscard]] bool is_whole() const { return tail_.empty() || tail_.back() == '\n'; }
  [[nodiscard]] std::string_view text() const {
    std::string_view line = tail_;
    line = line.substr(0, line.find_last_not_of('\n') + 1);
    return line.substr(line.rfind('\n') + 1);
  }

 private:
  std::string tail_;
};

void note_done(Exchange& exchange, std::string_view line) {
  constexpr std::string_view kDone = "{\"type\":\"done\"";
  constexpr std::string_view kExitCode = "\"exitCode\":";
  const size_t at = line.find(kExitCode);
  if (!line.starts_with(kDone) || at == std::string_view::npos) {
    return;
  }
  line.remove_prefix(at + kExitCode.size());
  if (const auto code = base::parse_number<int>(line.substr(0, line.find_first_of(",}")))) {
    exchange.note_exit_code(*code);
  }
  if (line.contains("\"timedOut\":true")) {
    exchange.note("timed_out", true);
  }
  if (line.contains("\"oomKilled\":true")) {
    exchange.note("oom_killed", true);
  }
}

// A stream that broke off: its last line says so.
std::string broken_line(const Error& error, bool is_behind_line) {
  return base::cat(is_behind_line ? "" : "\n",
                   wire::json::serialize(wire::json::Object{
                       {"type", "error"}, {"error", true}, {"message", error.message}}),
                   "\n");
}

Task<Result<void>> relay_lines(Exchange& exchange, AgentChannel& channel, const service::Live& live,
                               const Response& response) {
  if (response.status != 200) {
    co_return co_await v1_answer_agent_error(exchange, channel, response);
  }
  auto head = exchange.start_head(response.status);
  head.add("content-type", "application/x-ndjson").add("cache-control", "no-store").add_chunked();
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), response.status));
  net::HttpWriter writer(exchange.client(), kStreamPatience);
  LastLine last;
  for (;;) {
    const auto piece =
        co_await channel.reader().read_body(net::Deadline::after(kStreamAnswerPatience));
    if (!piece) {
      const Error error = service::Sandboxes::agent_error(live, piece.error());
      CO_RETURN_IF_ERROR(co_await writer.write_chunk(broken_line(error, last.is_whole())));
      break;
    }
    if (piece->empty()) {
      break;
    }
    last.add(*piece);
    CO_RETURN_IF_ERROR(co_await writer.write_chunk(*piece));
  }
  note_done(exchange, last.text());
  co_return co_await writer.finish_chunks();
}

}  // namespace

Task<Result<void>> v1_exec(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(auto use, application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(const auto body, co_await exchange.read_body(kRunBodyBytesMax));
  CO_ASSIGN_OR_RETURN(auto request, service::parse_v1_exec(body));
  exchange.audit().details = std::move(request.audit);
  service::Commands::Running command(application.commands, use.live(), exchange.caller(),
                                     {.kind = service::CommandKind::stream,
                                      .argv_text = std::move(request.argv_text),
                                      .user = std::move(request.user),
                                      .request_id = exchange.request_id()});
  auto head = agent_head(exchange, "POST", "/stream");
  head.add("content-type", "application/json").add_length(request.body.size());
  auto done = co_await ask_agent(application, exchange, use.live(),
                                 {.method = "POST",
                                  .head = head.finish(),
                                  .body = std::move(request.body),
                                  .patience = kStreamAnswerPatience,
                                  .client_cancels = true},
                                 relay_lines);
  command.end(exchange.status(), exchange.exit_code());
  co_return done;
}

}  // namespace server
