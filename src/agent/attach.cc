#include "agent/attach.h"

#include <algorithm>
#include <array>
#include <functional>

#include "agent/answers.h"
#include "agent/log_framing.h"
#include "wire/json.h"
#include "wire/websocket.h"

namespace agent {
namespace {

using net::Deadline;
using std::chrono::steady_clock;
using wire::websocket::Event;
using wire::websocket::make_frame;
using wire::websocket::Opcode;

// A paste; larger input comes in several messages.
constexpr size_t kMessageBytesMax = size_t{1024} * 1024;
constexpr size_t kReadBytes = size_t{16} * 1024;
// How long a client may take to answer our close.
constexpr base::Milliseconds kClosePatience{2'000};
// Answers to pings that a client does not take are not collected.
constexpr size_t kWaitingBytesMax = 4096;
// The documented part of a terminal's past that is shown again.
constexpr uint64_t kScreenBytes = uint64_t{256} * 1024;
constexpr uint64_t kLineBytes = 4096;
constexpr char kChannelInput = 0;
constexpr std::string_view kSwitching =
    "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n";

class Attachment {
 public:
  Attachment(SessionPtr session, net::Stream& client, uint64_t position, StreamPatience patience)
      : session_(std::move(session)),
        client_(client),
        framing_(session_->has_terminal()),
        log_(session_, client, framing_, position, std::nullopt, patience.silence),
        decoder_(wire::websocket::Role::server, kMessageBytesMax),
        dead_peer_(patience.dead_peer),
        read_ended_(client.loop()) {
    log_.say(offset_frame(std::max(position, session_->log().start_offset())));
  }

  Task<Result<void>> tell() { return log_.run(); }

  Task<void> listen(std::string early) {
    co_await take(early);
    const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
    // Past our close too, or what the client has sent would break the connection off before it has
    // read why.
    for (;;) {
      const auto count =
          co_await client_.read_some({buffer.get(), kReadBytes}, Deadline::after(dead_peer_));
      const bool silent = !count && count.error().code == ErrorCode::deadline_exceeded;
      if (silent && steady_clock::now() < log_.last_progress() + dead_peer_) {
        continue;  // slow, not dead
      }
      if (!count || *count == 0) {
        log_.leave();
        break;
      }
      co_await take({buffer.get(), *count});
    }
    listening_ = false;
    read_ended_.notify();
  }

  // The client's own close, or its end.
  Task<void> wait_for_close() {
    const Deadline deadline = Deadline::after(kClosePatience);
    while (listening_) {
      const auto wake = co_await read_ended_.wait(deadline);
      if (wake != net::EventLoop::Wake::ready) {
        break;
      }
    }
  }

 private:
  Task<void> take(std::string_view bytes) {
    while (!bytes.empty() && !closed_) {
      const auto step = decoder_.next(bytes);
      if (!step) {
        refuse(step.error().close_code, step.error().reason);
        co_return;
      }
      bytes.remove_prefix(step->consumed);
      if (step->event) {
        co_await handle(*step->event);
      }
    }
  }

  Task<void> handle(Event event) {
    switch (event.kind) {
      case Event::Kind::binary:
        co_await take_input(event.payload);
        break;
      case Event::Kind::text:
        take_order(event.payload);
        break;
      case Event::Kind::ping:
        log_.alive();
        if (log_.waiting_bytes() < kWaitingBytesMax) {
          log_.say(make_frame(Opcode::pong, event.payload));
        }
        break;
      case Event::Kind::pong:
        break;
      case Event::Kind::close: {
        const bool has_code = event.close_code != wire::websocket::kCloseNoStatus;
        close(has_code ? wire::websocket::close_payload(event.close_code, "") : "");
        break;
      }
    }
  }

  Task<void> take_input(std::string_view payload) {
    if (payload.empty() || payload.front() != kChannelInput) {
      refuse(wire::websocket::kClosePolicy, "only channel 0 takes input");
      co_return;
    }
    const std::string bytes(payload.substr(1));
    CommandInput& input = session_->input();
    while (input.is_open() && (!input.has_room() || session_->input_taken)) {
      const auto wake = co_await input.changed().wait(Deadline::after(kClosePatience));
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return;
      }
    }
    if (input.is_open()) {
      session_->give_input(bytes);
    }
  }

  // {"type":"resize","cols","rows"}, {"type":"eof"}, {"type":"signal","signal"}. What comes too
  // late for the session is ignored: its end is on the way to the client.
  void take_order(std::string_view text) {
    if (const auto done = obey(text); !done && done.error().code != ErrorCode::session_exited) {
      refuse(wire::websocket::kClosePolicy, done.error().message);
    }
  }

  Result<void> obey(std::string_view text) {
    ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(text));
    wire::json::Reader reader(object);
    ASSIGN_OR_RETURN(const auto type, reader.required<std::string>("type"));
    if (type == "resize") {
      ASSIGN_OR_RETURN(const WindowSize size, read_window_size(reader));
      RETURN_IF_ERROR(reader.finish());
      return session_->resize(size);
    }
    if (type == "signal") {
      ASSIGN_OR_RETURN(const auto name, reader.required<std::string>("signal"));
      RETURN_IF_ERROR(reader.finish());
      ASSIGN_OR_RETURN(const int number, parse_signal(name));
      return session_->signal(number);
    }
    if (type == "eof") {
      RETURN_IF_ERROR(reader.finish());
      session_->finish_input();
      return {};
    }
    return base::fail_field("type", "there is no message of type '", type, "'");
  }

  void refuse(uint16_t code, std::string_view reason) {
    close(wire::websocket::close_payload(code, reason));
  }

  void close(std::string_view payload) {
    closed_ = true;
    log_.say(make_frame(Opcode::close, payload));
    log_.stop();
  }

  SessionPtr session_;
  net::Stream& client_;
  FrameFraming framing_;
  LogStream log_;
  wire::websocket::Decoder decoder_;
  base::Milliseconds dead_peer_;
  bool closed_ = false;  // nothing more is taken from the client
  bool listening_ = true;
  net::Event read_ended_;
};

}  // namespace

bool wants_websocket(const wire::http::Request& request) {
  const std::string* upgrade = request.find("upgrade");
  return upgrade != nullptr && base::equals_ignoring_case(*upgrade, "websocket");
}

Task<Result<void>> attach_session(SessionPtr session, net::Stream& stream, net::HttpReader& reader,
                                  uint64_t position, StreamPatience patience) {
  CO_RETURN_IF_ERROR(co_await stream.write_all(kSwitching, kAnswerPatience));
  Attachment attachment(std::move(session), stream, position, patience);
  net::TaskGroup listening(stream.loop(), co_await net::current_cancellation());
  listening.spawn(attachment.listen(reader.take_buffered()));
  const auto told = co_await attachment.tell();
  if (told) {
    stream.shutdown_write();
    co_await attachment.wait_for_close();
  }
  listening.cancel();
  co_await listening.join();
  co_return base::fail(ErrorCode::connection_closed, "the connection was the session's");
}

uint64_t screen_offset(const SessionLog& log) {
  const uint64_t start = log.start_offset();
  const uint64_t end = log.end_offset();
  if (end - start <= kScreenBytes && start == 0) {
    return 0;
  }
  const uint64_t from = std::max(start, end - std::min(end, kScreenBytes));
  std::array<char, kLineBytes> bytes{};
  if (from < end) {
    if (const auto size = log.read(from, bytes)) {
      const size_t line = std::string_view(bytes.data(), *size).find('\n');
      return line == std::string_view::npos ? from : from + line + 1;
    }
  }
  return from;
}

}  // namespace agent
