#include "agent/exec.h"

#include <errno.h>
#include <sys/sendfile.h>

#include <algorithm>

#include "agent/answers.h"
#include "agent/command_run.h"
#include "agent/run_request.h"

namespace agent {
namespace {

using net::Deadline;
using wire::http::HeadBuilder;

// api/agent-protocol.md: with its newline.
constexpr size_t kLineBytesMax = size_t{1024} * 1024;
// A slow reader is waited for as long as it takes something now and then.
constexpr base::Milliseconds kOutputPatience{600'000};
// How often the client is looked at while the command does not take its input.
constexpr base::Milliseconds kClientPoll{1000};
constexpr size_t kSendBytes = size_t{1024} * 1024;

struct FirstLine {
  CommandRequest request;
  std::string input;  // what came with it
};

Task<Result<FirstLine>> read_first_line(net::HttpReader& reader) {
  std::string line;
  for (;;) {
    CO_ASSIGN_OR_RETURN(const auto piece,
                        co_await reader.read_body(Deadline::after(kBodyPatience)));
    const size_t end = piece.find('\n');
    line += piece.substr(0, end);
    if (line.size() >= kLineBytesMax) {
      co_return base::fail(ErrorCode::body_too_large, "the first line exceeds ", kLineBytesMax,
                           " bytes");
    }
    if (end != std::string_view::npos || piece.empty()) {
      std::string input(end == std::string_view::npos ? "" : piece.substr(end + 1));
      CO_ASSIGN_OR_RETURN(auto request, parse_exec_request(line));
      co_return FirstLine{.request = std::move(request), .input = std::move(input)};
    }
  }
}

// The rest of the body to the command; when that wants no more, to nowhere, so that the client can
// finish sending and read its answer. Ends with the body.
Task<Result<void>> pass_input(net::HttpReader& reader, CommandRun& run, int socket) {
  CommandInput& input = run.input();
  for (;;) {
    while (input.is_open() && !input.has_room()) {
      [[maybe_unused]] const auto wake =
          co_await input.changed().wait(Deadline::after(kClientPoll));
      if (wake == net::EventLoop::Wake::cancelled || peer_has_closed(socket)) {
        co_return base::fail(ErrorCode::connection_closed, "the client left during the command");
      }
    }
    const auto piece = co_await reader.read_body(Deadline::after(kBodyPatience));
    if (!piece && piece.error().code == ErrorCode::deadline_exceeded && !run.command().ended()) {
      continue;  // a client may think for as long as the command runs
    }
    if (!piece) {
      co_return std::unexpected(piece.error());
    }
    if (piece->empty()) {
      co_return Result<void>{};
    }
    input.add(std::string(*piece));
  }
}

// Both ends of the exchange while the command runs.
struct Exchange {
  CommandRun& run;
  net::HttpReader& reader;
  int socket;
  Result<void> input_result;

  Task<void> feed() {
    input_result = co_await pass_input(reader, run, socket);
    if (!input_result) {
      run.leave();
      co_return;
    }
    run.input().finish();
    if (!run.command().ended()) {
      run.watch_client();
    }
  }
};

Task<Result<void>> send_stored(net::Stream& stream, const OutputStore& store) {
  const auto [range, none] = store.ranges(OutputStore::kUnlimited);
  if (store.file() < 0) {
    std::string bytes(static_cast<size_t>(range.size), '\0');
    if (!bytes.empty()) {
      CO_RETURN_IF_ERROR(store.read(0, bytes));
    }
    co_return co_await stream.write_all(bytes, kOutputPatience);
  }
  off_t offset = 0;
  while (static_cast<uint64_t>(offset) < range.size) {
    const auto left = range.size - static_cast<uint64_t>(offset);
    const ssize_t count = ::sendfile(stream.fd(), store.file(), &offset,
                                     static_cast<size_t>(std::min<uint64_t>(left, kSendBytes)));
    if (count > 0 || (count < 0 && errno == EINTR)) {
      continue;
    }
    if (count == 0 || errno != EAGAIN) {
      // The head has promised more: the connection must not look complete.
      co_return base::fail(ErrorCode::connection_closed, "the output could not be sent");
    }
    const auto wake = co_await stream.loop().wait(stream.fd(), net::EventLoop::Direction::write,
                                                  Deadline::after(kOutputPatience));
    if (wake != net::EventLoop::Wake::ready) {
      co_return std::unexpected(net::wake_error(wake, "send the output"));
    }
  }
  co_return Result<void>{};
}

std::string answer_head(const RunOutcome& outcome, const OutputStore& out, const OutputStore& err) {
  const uint64_t dropped = out.total() - out.kept() + err.total() - err.kept();
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  HeadBuilder head = HeadBuilder::response(200);
  head.add("content-type", "application/octet-stream")
      .add_length(out.kept() + err.kept())
      .add("x-stdout-length", base::cat(out.kept()))
      .add("x-stderr-length", base::cat(err.kept()))
      .add("x-return-code", base::cat(outcome.exit_code))
      .add("x-timed-out", flag(outcome.timed_out))
      .add("x-oom-killed", flag(outcome.oom_killed))
      .add("x-truncated", flag(dropped > 0))
      .add("x-duration-ms", base::cat(outcome.duration_ms));
  if (!outcome.signal.empty()) {
    head.add("x-signal", outcome.signal);
  }
  return head.finish();
}

}  // namespace

Task<Result<void>> exec_command(Agent& agent, net::Stream& stream, net::HttpReader& reader,
                                const wire::http::Request& request) {
  CO_RETURN_IF_ERROR(co_await ask_for_body(stream, request));
  CO_ASSIGN_OR_RETURN(FirstLine first, co_await read_first_line(reader));
  CommandRun run(agent, stream, std::move(first.request), OutputStore::kUnlimited);
  const bool with_input = !first.input.empty() || !reader.body_finished();
  CO_RETURN_IF_ERROR(run.start(with_input));
  run.input().add(std::move(first.input));
  Exchange exchange{.run = run, .reader = reader, .socket = stream.fd(), .input_result = {}};
  net::Cancellation* outer = co_await net::current_cancellation();
  net::TaskGroup feeding(agent.loop, outer);
  feeding.spawn(exchange.feed());
  co_await run.finish_or_leave();
  if (run.client_gone()) {
    feeding.cancel();
  }
  co_await feeding.join();
  if (!exchange.input_result && !connection_is_lost(exchange.input_result.error().code)) {
    co_return std::unexpected(exchange.input_result.error());
  }
  if (run.client_gone()) {
    co_return base::fail(ErrorCode::connection_closed, "the client left during the command");
  }
  CO_ASSIGN_OR_RETURN(const RunOutcome outcome, run.outcome());
  const std::string head = answer_head(outcome, run.output(), run.error());
  CO_RETURN_IF_ERROR(co_await stream.write_all(head, kAnswerPatience));
  CO_RETURN_IF_ERROR(co_await send_stored(stream, run.output()));
  co_return co_await send_stored(stream, run.error());
}

}  // namespace agent
