// sessions logs, attach, write: what a session says, and what it is told.
#include <unistd.h>

#include <algorithm>

#include "cli/context.h"
#include "cli/session_pump.h"
#include "cli/session_target.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Object;

namespace {

// Of a terminal's past shown when one comes to it: the last screens.
constexpr uint64_t kPastShownBytes = 16UL * 1024;
constexpr int kLongMilliseconds = 60'000;  // then the same wait again

Result<uint64_t> log_field(const Object& session, std::string_view name) {
  const auto* log = session.if_contains("log");
  const Object* fields = log == nullptr ? nullptr : log->if_object();
  const auto number =
      fields == nullptr ? std::nullopt : base::parse_number<uint64_t>(field_text(*fields, name));
  if (!number) {
    return fail(ErrorCode::internal, "the session's answer has no log.", name);
  }
  return *number;
}

bool has_terminal(const Object& session) {
  const auto* tty = session.if_contains("tty");
  return tty != nullptr && tty->is_object();
}

void tell_of_loss(Context& context, const AttachStream& stream) {
  if (stream.lost_bytes() > 0) {
    context.console.note(base::cat(stream.lost_bytes(), " bytes of the output are no longer kept"));
  }
}

// The output up to `end`, which a session at that offset has written already.
Result<void> read_past(Context& context, AttachStream& stream, uint64_t end) {
  const auto all_read = [&] { return stream.end() || stream.offset().value_or(0) >= end; };
  while (!all_read() || !stream.output().empty()) {
    std::vector<pollfd> waits{{context.interrupt.fd(), POLLIN, 0}};
    const int timeout = all_read() ? kLongMilliseconds : stream.add_waits(waits);
    stream.output().add_waits(waits);
    ::poll(waits.data(), waits.size(), timeout);
    RETURN_IF_ERROR(context.interrupt.check());
    if (!all_read()) {
      RETURN_IF_ERROR(stream.step());
    }
    RETURN_IF_ERROR(stream.output().flush());
  }
  return {};
}

}  // namespace

Result<int> session_logs(Context& context, const SessionLogsOptions& options) {
  const std::string target = session_target(options.sandbox, options.session);
  ASSIGN_OR_RETURN(const auto session, context.api.get_object(target));
  ASSIGN_OR_RETURN(const uint64_t end, log_field(session, "end_offset"));
  if (options.offset > end) {
    return fail(ErrorCode::range_not_satisfiable, "the session's output ends at ", end);
  }
  OutputQueue output(context.console);
  if (options.stream != "both") {
    output.show_only(options.stream == "stderr" ? Channel::error : Channel::output);
  }
  AttachStream stream(context, target + "/attach", options.offset, output);
  if (options.follow) {
    ASSIGN_OR_RETURN(const auto outcome, SessionPump(context, stream, nullptr, nullptr).run());
    tell_of_loss(context, stream);
    return outcome.signal != 0 ? kExitSignalBase + outcome.signal : 0;
  }
  if (options.offset < end) {
    RETURN_IF_ERROR(read_past(context, stream, end));
    tell_of_loss(context, stream);
  }
  return 0;
}

Result<int> session_attach(Context& context, const SessionAttachOptions& options) {
  const std::string target = session_target(options.sandbox, options.session);
  ASSIGN_OR_RETURN(const auto session, context.api.get_object(target));
  ASSIGN_OR_RETURN(const uint64_t start, log_field(session, "start_offset"));
  ASSIGN_OR_RETURN(const uint64_t end, log_field(session, "end_offset"));
  const uint64_t past = has_terminal(session) ? std::min(end - start, kPastShownBytes) : 0;
  OutputQueue output(context.console);
  AttachStream stream(context, target + "/attach", options.offset.value_or(end - past), output);
  Result<PumpOutcome> outcome;
  {
    std::unique_ptr<RawTerminal> terminal;
    std::unique_ptr<SessionInput> input;
    const bool person = ::isatty(STDIN_FILENO) == 1;
    if (options.read_input && has_terminal(session)) {
      if (person) {
        ASSIGN_OR_RETURN(terminal, RawTerminal::open());
        stream.send_size(terminal_size());
      }
      input = std::make_unique<TerminalInput>(stream, person);
    } else if (options.read_input) {
      input = std::make_unique<PipeInput>(context, target, EarlyInput{},
                                          PipeInput::Writer::one_of_several);
    }
    outcome = SessionPump(context, stream, input.get(), terminal.get()).run();
  }
  if (!outcome) {
    return std::unexpected(std::move(outcome).error());
  }
  tell_of_loss(context, stream);
  if (outcome->signal != 0) {
    return kExitSignalBase + outcome->signal;
  }
  return outcome->end ? outcome->end->exit_code : 0;
}

Result<int> session_write(Context& context, const SessionWriteOptions& options) {
  const std::string target = session_target(options.sandbox, options.session);
  HttpRequest request{.method = "POST",
                      .target = base::cat(target, "/stdin", options.end ? "?eof=1" : ""),
                      .headers = {{"Content-Type", "application/octet-stream"}}};
  if (options.text) {
    request.body = *options.text + "\n";
  } else {
    request.body_fd = STDIN_FILENO;
  }
  Progress progress(context.console, context.clock);
  const auto show = [&](const TransferCounts& counts) {
    progress.show(base::cat("writing, ", describe_bytes(counts.sent, counts.send_total)));
  };
  RETURN_IF_ERROR(context.api.call(request, Repeat::no, {}, show));
  return 0;
}

}  // namespace cli
