#include "cli/attach_stream.h"

#include <algorithm>

namespace cli {

using base::ErrorCode;
using base::fail;
using std::chrono::milliseconds;
using wire::json::Object;
using wire::websocket::Event;
using wire::websocket::Opcode;

namespace {

// The session's end pings every 15 s; four in a row do not get lost.
constexpr std::chrono::seconds kSilenceMax{60};
// A session does not wait for who took nothing and said nothing for 10 s.
constexpr std::chrono::seconds kSignOfLifeTime{3};
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kPauseMax{2000};
constexpr int kDoublingsMax = 6;
// A frame's payload; well below what a server takes.
constexpr size_t kFrameBytesMax = 32UL * 1024;

std::string with_offset(const std::string& target, std::optional<uint64_t> offset) {
  return offset ? base::cat(target, target.contains('?') ? "&" : "?", "offset=", *offset) : target;
}

}  // namespace

SessionEnd parse_session_end(const Object& object) {
  SessionEnd end;
  end.timed_out = field_text(object, "timed_out") == "true";
  end.oom_killed = field_text(object, "oom_killed") == "true";
  constexpr int kExitCodeMax = 255;
  const auto code = base::parse_number<int>(field_text(object, "exit_code"));
  end.exit_code = code && *code >= 0 && *code <= kExitCodeMax ? *code : kExitOwnError;
  if (end.timed_out) {
    end.exit_code = kExitTimedOut;
  }
  return end;
}

AttachStream::AttachStream(Context& context, std::string target, std::optional<uint64_t> offset,
                           OutputQueue& output)
    : context_(context), target_(std::move(target)), offset_(offset), output_(output) {}

Result<void> AttachStream::open() { return connect(); }

Result<void> AttachStream::connect() {
  ASSIGN_OR_RETURN(socket_,
                   WebSocket::connect(context_.http.endpoint(), with_offset(target_, offset_),
                                      context_.interrupt, context_.random));
  last_heard_ = context_.clock.steady();
  more_ = true;  // something may have come with the handshake
  progress_.reset();
  if (size_) {
    send_size(*size_);
  }
  send_input(std::exchange(waiting_input_, {}));
  if (std::exchange(waiting_end_, false)) {
    send_end_of_input();
  }
  return {};
}

int AttachStream::add_waits(std::vector<pollfd>& waits) {
  const auto now = context_.clock.steady();
  const auto until = [&](base::SteadyTime time) {
    return static_cast<int>(
        std::max<int64_t>(std::chrono::ceil<milliseconds>(time - now).count(), 0));
  };
  if (socket_ == nullptr) {
    return until(next_attempt_);
  }
  if (output_.full()) {
    if (socket_->unsent() > 0) {
      waits.push_back({socket_->fd(), POLLOUT, 0});
    }
    return until(next_sign_of_life_);
  }
  waits.push_back({socket_->fd(), socket_->wanted(), 0});
  return more_ ? 0 : until(last_heard_ + kSilenceMax);
}

Result<void> AttachStream::step() {
  const auto now = context_.clock.steady();
  if (socket_ != nullptr) {
    const auto outcome = exchange();
    return outcome || end_ ? Result<void>{} : lose(outcome.error());
  }
  if (now < next_attempt_) {
    return {};
  }
  const auto outcome = connect();
  return outcome ? outcome : lose(outcome.error());
}

Result<void> AttachStream::exchange() {
  RETURN_IF_ERROR(socket_->flush());
  if (output_.full()) {
    return stand_still();
  }
  bool heard = false;
  const auto handler = [&](const Event& event) {
    heard = true;
    return take(event);
  };
  const size_t before = socket_->received();
  ASSIGN_OR_RETURN(more_, socket_->receive(handler));
  const auto now = context_.clock.steady();
  if (socket_->received() != before) {
    last_heard_ = now;
  } else if (now - last_heard_ > kSilenceMax) {
    return fail(ErrorCode::connection_closed, "the gateway has been silent for too long");
  }
  failures_ = heard ? 0 : failures_;
  return {};
}

Result<void> AttachStream::stand_still() {
  const auto now = context_.clock.steady();
  last_heard_ = now;  // nobody listens
  if (now >= next_sign_of_life_) {
    next_sign_of_life_ = now + kSignOfLifeTime;
    socket_->queue(Opcode::ping, "");
  }
  return socket_->flush();
}

// Another attempt later, or the error when there is no point in one.
Result<void> AttachStream::lose(const base::Error& error) {
  socket_.reset();
  more_ = false;
  const auto now = context_.clock.steady();
  next_attempt_ =
      now + std::min(kFirstPause * (1 << std::min(failures_++, kDoublingsMax)), kPauseMax);
  if (!is_passing(error)) {
    return std::unexpected(error);
  }
  if (progress_ == nullptr) {
    progress_ = std::make_unique<Progress>(context_.console, context_.clock);
    lost_at_ = now;
  }
  if (now - lost_at_ > kGiveUpTime) {
    return fail(ErrorCode::connection_closed, "the session cannot be reached: ", error.message);
  }
  progress_->show(base::cat("connection lost, trying again: ", error.message));
  return {};
}

Result<void> AttachStream::take(const Event& event) {
  if (event.kind == Event::Kind::text) {
    return take_note(event.payload);
  }
  if (event.payload.empty()) {
    return fail(ErrorCode::internal, "the gateway sent a frame without a channel");
  }
  const auto channel = static_cast<Channel>(event.payload[0]);
  const std::string_view bytes = event.payload.substr(1);
  if (channel != Channel::output && channel != Channel::error) {
    return fail(ErrorCode::internal, "the gateway sent a frame of an unknown channel");
  }
  if (offset_) {
    *offset_ += bytes.size();
  }
  output_.add(channel, bytes);
  return {};
}

Result<void> AttachStream::take_note(std::string_view text) {
  ASSIGN_OR_RETURN(const auto note, wire::json::parse_object(text));
  const std::string type = field_text(note, "type");
  if (type == "exit") {
    end_ = parse_session_end(note);
  } else if (type == "offset") {
    const auto offset = base::parse_number<uint64_t>(field_text(note, "offset"));
    if (!offset) {
      return fail(ErrorCode::internal, "the gateway sent an offset that is no number");
    }
    return take_offset(*offset);
  }
  return {};  // what a later version adds is not for us
}

Result<void> AttachStream::take_offset(uint64_t offset) {
  if (offset_ && offset < *offset_) {
    return fail(ErrorCode::internal, "the session's offset went from ", *offset_, " to ", offset);
  }
  lost_bytes_ += offset_ ? offset - *offset_ : 0;
  offset_ = offset;
  return {};
}

bool AttachStream::takes_input() const {
  return (socket_ ? socket_->unsent() : waiting_input_.size()) < kInputBytesMax;
}

void AttachStream::send_input(std::string_view bytes) {
  if (socket_ == nullptr) {
    waiting_input_ += bytes;
    return;
  }
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kFrameBytesMax);
    socket_->queue(Opcode::binary, base::cat(static_cast<char>(Channel::input), piece));
    bytes.remove_prefix(piece.size());
  }
  (void)socket_->flush();  // what fails here fails in step(), too
}

void AttachStream::send_end_of_input() {
  if (socket_ == nullptr) {
    waiting_end_ = true;
    return;
  }
  send_note({{"type", "eof"}});
}

void AttachStream::send_size(TerminalSize size) {
  size_ = size;
  if (socket_ != nullptr) {
    send_note({{"type", "resize"}, {"cols", size.columns}, {"rows", size.rows}});
  }
}

void AttachStream::send_note(const Object& note) {
  socket_->queue(Opcode::text, wire::json::serialize(note));
  (void)socket_->flush();
}

}  // namespace cli
