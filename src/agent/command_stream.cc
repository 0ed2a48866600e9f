#include "agent/command_stream.h"

#include <array>

#include "agent/client_watch.h"
#include "agent/command.h"
#include "agent/command_input.h"
#include "agent/command_output.h"
#include "agent/run_request.h"
#include "agent/text_encoder.h"
#include "agent/uncancelled.h"
#include "base/log.h"
#include "wire/http1.h"

namespace agent {
namespace {

using net::Deadline;
using std::chrono::steady_clock;

constexpr base::Milliseconds kKeepAlive{15'000};
// A reader that takes nothing at all for so long is gone.
constexpr base::Milliseconds kReaderPatience{600'000};
constexpr std::string_view kKeepAliveLine = "{\"type\":\"keepAlive\",\"keepAlive\":true}\n";

std::string_view json_bool(bool value) { return value ? "true" : "false"; }

std::string done_line(const RunOutcome& outcome) {
  return base::cat(
      "{\"type\":\"done\",\"done\":true,\"exitCode\":", outcome.exit_code,
      ",\"signal\":", outcome.signal.empty() ? "null" : base::cat('"', outcome.signal, '"'),
      ",\"timedOut\":", json_bool(outcome.timed_out),
      ",\"oomKilled\":", json_bool(outcome.oom_killed), ",\"durationMs\":", outcome.duration_ms,
      "}\n");
}

std::string error_line(std::string_view message) {
  std::string line = "{\"type\":\"error\",\"error\":true,\"message\":";
  base::append_json_string(line, message);
  return line + "}\n";
}

class CommandStream {
 public:
  CommandStream(Agent& agent, net::Stream& client, RunRequest request, OutputEncoding encoding)
      : agent_(agent),
        client_(client),
        input_text_(std::move(request.input)),
        command_(agent, std::move(request)),
        input_(agent.loop),
        output_(agent.loop),
        lanes_{Lane{.name = "stdout", .text = TextEncoder(encoding)},
               Lane{.name = "stderr", .text = TextEncoder(encoding)}} {}
  ~CommandStream() { close(); }
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;

  Result<void> start() {
    ASSIGN_OR_RETURN(const base::Fd out, output_.open_pipe(CommandOutput::out));
    ASSIGN_OR_RETURN(const base::Fd err, output_.open_pipe(CommandOutput::err));
    base::Fd input;
    if (!input_text_.empty()) {
      ASSIGN_OR_RETURN(input, input_.open_pipe());
    }
    RETURN_IF_ERROR(command_.start({.input = input ? input.get() : agent_.null_device.get(),
                                    .output = out.get(),
                                    .error = err.get(),
                                    .tell_executed = true}));
    input_.add(std::move(input_text_));
    input_.finish();
    return {};
  }

  // The command's end, whoever brings it about. Not to be cancelled: leave() is.
  Task<void> supervise() {
    client_watch_.emplace(client_, [this] { leave(); });
    while (!command_.ended() && !client_gone_ && !command_.is_late()) {
      [[maybe_unused]] const auto wake =
          co_await command_.changed().wait(Deadline::at(command_.time_out_at()));
    }
    if (!command_.ended()) {
      if (!client_gone_) {
        command_.note_time_out();
      }
      co_await command_.end_tree();
    }
    output_.end();
    command_.changed().notify();
  }

  // Tells all output and the end. Not to be cancelled either.
  Task<void> tell() {
    co_await command_.wait_executed();
    if (command_.ended() && !command_.outcome()) {
      co_return;  // nothing ran: an ordinary error answer
    }
    head_written_ = true;
    co_await write(wire::http::HeadBuilder::response(200)
                       .add("content-type", "application/x-ndjson")
                       .add_chunked()
                       .finish());
    last_sign_ = steady_clock::now();
    while (!client_gone_) {
      if (const auto piece = output_.read()) {
        co_await tell_piece(*piece);
      } else if (output_.drained()) {
        co_await tell_end();
        co_return;
      } else {
        co_await wait_for_output();
      }
    }
  }

  void leave() {
    client_gone_ = true;
    command_.changed().notify();
  }
  [[nodiscard]] bool client_gone() const { return client_gone_; }
  [[nodiscard]] bool head_written() const { return head_written_; }
  [[nodiscard]] Result<RunOutcome> outcome() const { return command_.outcome(); }

 private:
  struct Lane {
    std::string_view name;
    TextEncoder text;
  };

  // Until something is to be read or the command is over; keep-alives meanwhile.
  Task<void> wait_for_output() {
    const Deadline deadline = Deadline::at(last_sign_ + kKeepAlive);
    const auto wake = co_await output_.wait(command_.changed(), deadline);
    if (wake == net::EventLoop::Wake::deadline) {
      co_await write_line(kKeepAliveLine);
    }
  }

  Task<void> tell_piece(const CommandOutput::Piece& piece) {
    Lane& lane = lanes_[piece.stream];
    begin_event(lane);
    const size_t before = line_.size();
    lane.text.add(line_, piece.bytes());
    if (line_.size() > before) {
      line_ += "\"}\n";
      co_await write_line(line_);
    }
  }

  void begin_event(const Lane& lane) {
    line_.clear();
    line_ += base::cat("{\"type\":\"", lane.name, "\",\"stream\":\"", lane.name, "\",\"data\":\"");
  }

  Task<void> tell_end() {
    for (Lane& lane : lanes_) {
      begin_event(lane);
      const size_t before = line_.size();
      lane.text.finish(line_);
      if (line_.size() > before) {
        line_ += "\"}\n";
        co_await write_line(line_);
      }
    }
    const auto outcome = command_.outcome();
    std::string last;
    if (const std::string complaint = command_.complaint(); !complaint.empty()) {
      last += "{\"type\":\"stderr\",\"stream\":\"stderr\",\"data\":";
      base::append_json_string(last, complaint);
      last += "}\n";
    }
    if (!outcome) {
      last += error_line(outcome.error().message);
    } else {
      last += outcome->timed_out ? error_line("timeout") : "";
      last += done_line(*outcome);
    }
    co_await write_line(last);
    co_await write(std::string(wire::http::kLastChunk));
  }

  Task<void> write_line(std::string_view line) {
    const std::string head = wire::http::chunk_head(line.size());
    chunk_.clear();
    chunk_.append(head).append(line).append("\r\n");
    const auto written = co_await client_.write_all(chunk_, kReaderPatience);
    last_sign_ = steady_clock::now();
    if (!written) {
      leave();
    }
  }
  Task<void> write(std::string text) {
    const auto written = co_await client_.write_all(text, kReaderPatience);
    if (!written) {
      leave();
    }
  }

  void close() {
    client_watch_.reset();
    output_.close(agent_.leftovers);
    input_.close();
  }

  Agent& agent_;
  net::Stream& client_;
  std::string input_text_;
  Command command_;
  CommandInput input_;
  CommandOutput output_;
  std::array<Lane, 2> lanes_;
  std::optional<ClientWatch> client_watch_;
  std::string line_;
  std::string chunk_;
  base::SteadyTime last_sign_;
  bool client_gone_ = false;
  bool head_written_ = false;
};

}  // namespace

Task<Result<void>> stream_command(Agent& agent, net::Stream& stream, std::string body) {
  CO_ASSIGN_OR_RETURN(RunRequest request, parse_run_request(body));
  body = std::string();
  const OutputEncoding encoding = request.encoding;
  CommandStream command(agent, stream, std::move(request), encoding);
  CO_RETURN_IF_ERROR(command.start());
  std::vector<Task<void>> tasks;
  tasks.push_back(command.supervise());
  tasks.push_back(command.tell());
  co_await run_uncancelled(agent.loop, [&command] { command.leave(); }, std::move(tasks));
  if (command.client_gone()) {
    co_return base::fail(ErrorCode::connection_closed, "the client left during the command");
  }
  if (!command.head_written()) {
    co_return std::unexpected(command.outcome().error());
  }
  co_return Result<void>{};
}

}  // namespace agent
