// The library's accessors of messages are marked as deprecated in favour of callbacks that have to
// answer at once; a front that asks a gateway cannot.
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
#include "ssh/command_channel.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "ssh/pump.h"
#include "ssh/words.h"

namespace ssh {
namespace {

using net::Deadline;
using wire::json::Object;
using wire::websocket::Event;
using wire::websocket::Opcode;

constexpr size_t kReadBytes = size_t{64} * 1024;
constexpr base::Milliseconds kPatience{std::chrono::hours(24 * 7)};
constexpr size_t kMessageBytesMax = size_t{1024} * 1024;
constexpr size_t kInputBytesMax = size_t{256} * 1024;  // of one frame to the agent
constexpr char kChannelOut = 1;
constexpr char kChannelErr = 2;
constexpr int kFailed = 255;  // as OpenSSH's client tells its own failures
// The gateway is no browser's script: what it is sent need not be masked from anybody.
constexpr std::array<char, 4> kNoMask{};

constexpr std::array<std::string_view, 7> kVariables{
    "LANG", "TZ", "COLORTERM", "NO_COLOR", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "GIT_PROTOCOL"};

bool may_be_set(std::string_view name) {
  return (name.starts_with("LC_") && !name.contains('=')) ||
         std::ranges::find(kVariables, name) != kVariables.end();
}

std::string_view text_of(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

bool is_terminal_name(std::string_view name) {
  return !name.empty() && name.size() <= kTerminalNameBytesMax &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7F; });
}

// As the agent knows them. Others mean nothing here, and are not to end the command.
bool is_signal(std::string_view name) {
  const std::string_view short_name = name.starts_with("SIG") ? name.substr(3) : name;
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && short_name == known) {
      return true;
    }
  }
  return false;
}

int side(int asked, int standard) { return asked <= 0 ? standard : std::min(asked, kSideMax); }

Object size_json(int columns, int rows) { return {{"cols", columns}, {"rows", rows}}; }

}  // namespace

CommandChannel::CommandChannel(Transport& transport, ssh_channel channel, Gateway& gateway,
                               const Account& account)
    : channel_(transport, channel), gateway_(gateway), account_(account) {
  channel_.on_signal = [this](std::string_view name) {
    if (is_signal(name)) {
      order({{"type", "signal"}, {"signal", name}});
    }
  };
  channel_.on_agent_request = [this] { wants_agent_ = true; };
}

void CommandChannel::take(ssh_message message) {
  const uint64_t sent_before = channel_.transport().messages_sent();
  bool is_fine = false;
  switch (::ssh_message_subtype(message)) {
    case SSH_CHANNEL_REQUEST_PTY:
      is_fine = take_terminal(message);
      break;
    case SSH_CHANNEL_REQUEST_ENV:
      is_fine = take_variable(message);
      break;
    case SSH_CHANNEL_REQUEST_WINDOW_CHANGE:
      take_size(message);
      is_fine = true;
      break;
    case SSH_CHANNEL_REQUEST_SHELL:
    case SSH_CHANNEL_REQUEST_EXEC:
    case SSH_CHANNEL_REQUEST_SUBSYSTEM:
      is_fine = command_.empty() && take_command(message);
      break;
    default:
      break;
  }
  if (is_fine) {
    ::ssh_message_channel_request_reply_success(message);
  } else {
    ::ssh_message_reply_default(message);
  }
  // "eow@openssh.com": nobody reads the client's standard output any more. The library gives
  // unknown requests no name; of OpenSSH's this is the only one that wants no answer.
  if (::ssh_message_subtype(message) == SSH_CHANNEL_REQUEST_UNKNOWN &&
      channel_.transport().client_is_openssh() &&
      channel_.transport().messages_sent() == sent_before) {
    order({{"type", "output_closed"}});
  }
}

bool CommandChannel::take_terminal(ssh_message message) {
  if (!command_.empty() || terminal_) {
    return false;
  }
  terminal_ =
      Size{.columns = side(::ssh_message_channel_request_pty_width(message), kColumnsDefault),
           .rows = side(::ssh_message_channel_request_pty_height(message), kRowsDefault)};
  if (const auto name = text_of(::ssh_message_channel_request_pty_term(message));
      is_terminal_name(name)) {
    variables_["TERM"] = name;
  }
  return true;
}

bool CommandChannel::take_variable(ssh_message message) {
  const auto name = text_of(::ssh_message_channel_request_env_name(message));
  const auto value = text_of(::ssh_message_channel_request_env_value(message));
  if (!may_be_set(name) || variables_.size() >= kVariablesMax ||
      name.size() + value.size() > kVariableBytesMax || !base::is_utf8(name) ||
      !base::is_utf8(value)) {
    return false;
  }
  variables_[std::string(name)] = value;
  return true;
}

void CommandChannel::take_size(ssh_message message) {
  if (!terminal_) {
    return;
  }
  terminal_ =
      Size{.columns = side(::ssh_message_channel_request_pty_width(message), terminal_->columns),
           .rows = side(::ssh_message_channel_request_pty_height(message), terminal_->rows)};
  if (!command_.empty()) {
    Object resize = size_json(terminal_->columns, terminal_->rows);
    resize["type"] = "resize";
    order(std::move(resize));
  }
}

bool CommandChannel::take_command(ssh_message message) {
  const int kind = ::ssh_message_subtype(message);
  if (kind == SSH_CHANNEL_REQUEST_SHELL) {
    command_ = {{"login_shell", true}};
    return true;
  }
  if (kind == SSH_CHANNEL_REQUEST_SUBSYSTEM) {
    is_helper_ = text_of(::ssh_message_channel_request_subsystem(message)) == "sftp";
    if (is_helper_) {
      command_ = {{"helper", "sftp"}};
    }
    return is_helper_;
  }
  const auto line = text_of(::ssh_message_channel_request_command(message));
  if (line.size() > kCommandBytesMax || !base::is_utf8(line)) {
    // Clients say nothing of use where the request is refused.
    refusal_ = base::cat("a command has to be UTF-8, of at most ", kCommandBytesMax, " bytes");
    command_ = {{"command", ""}};
    return true;
  }
  if (const auto arguments = scp_arguments(line); arguments && !terminal_) {
    is_helper_ = true;
    command_ = {{"helper", "scp"},
                {"argv", wire::json::Array(arguments->begin(), arguments->end())}};
  } else {
    command_ = {{"command", line}};
  }
  return true;
}

void CommandChannel::order(Object order) {
  if (command_.empty() || orders_.size() > kReadBytes) {
    return;  // nothing runs, or nothing listens
  }
  orders_ += wire::websocket::make_masked_frame(Opcode::text,
                                                wire::json::serialize(std::move(order)), kNoMask);
  channel_.transport().activity().notify();
}

GatewayRequest CommandChannel::request() const {
  Object body = command_;
  if (!variables_.empty()) {
    Object variables;
    for (const auto& [name, value] : variables_) {
      variables[name] = value;
    }
    body["env"] = std::move(variables);
  }
  if (terminal_ && !is_helper_) {
    body["tty"] = size_json(terminal_->columns, terminal_->rows);
  }
  return {.method = "POST",
          .target = is_helper_ ? "/helper" : "/command",
          .bearer = account_.secret,
          .body = wire::json::serialize(body)};
}

Task<void> CommandChannel::serve() {
  while (command_.empty()) {
    if (channel_.closed()) {
      co_return;
    }
    [[maybe_unused]] const auto wake =
        co_await channel_.transport().activity().wait(Deadline::never());
  }
  co_await run();
}

Task<void> CommandChannel::run() {
  if (wants_agent_ && terminal_) {
    co_await channel_.send("sandbox: agent forwarding (-A) is not offered here\r\n", true);
  }
  Result<GatewayStream> stream = base::fail(ErrorCode::invalid_field, refusal_);
  if (refusal_.empty()) {
    stream = co_await gateway_.ask(request());
  }
  if (!stream) {
    co_await say(stream.error().message);
    exit_status_ = kFailed;
  } else if (is_helper_) {
    co_await pump(channel_, std::move(*stream), EndOfOutput::ends_all);
    exit_status_ = 0;  // both protocols tell in their own bytes what went wrong
  } else {
    co_await serve_frames(std::move(*stream));
  }
  channel_.send_end();
  if (!exit_signal_.empty()) {
    channel_.send_exit_signal(exit_signal_);
  } else {
    channel_.send_exit_status(exit_status_.value_or(kFailed));
  }
  channel_.close();
}

Task<void> CommandChannel::say(std::string message) {
  const std::string line = base::cat("sandbox: ", message, terminal_ ? "\r\n" : "\n");
  co_await channel_.send(line, true);
}

Task<void> CommandChannel::serve_frames(GatewayStream stream) {
  net::TaskGroup both(gateway_.loop(), co_await net::current_cancellation());
  both.spawn(pass_input(*stream.stream, both));
  both.spawn(pass_output(*stream.stream, std::move(stream.early), both));
  co_await both.join();
  if (!exit_status_ && exit_signal_.empty() && !channel_.closed()) {
    co_await say("the command was cut off: its sandbox has ended, or cannot be reached");
  }
}

// Orders first: a size must be there before what is typed behind it.
Task<void> CommandChannel::pass_input(net::Stream& stream, net::TaskGroup& both) {
  bool has_ended = false;
  for (;;) {
    std::string frames = std::exchange(orders_, {});
    const auto taken =
        has_ended ? Result<std::optional<std::string>>(std::nullopt) : channel_.take();
    if (!taken || channel_.closed()) {
      break;
    }
    if (*taken && (*taken)->empty()) {
      has_ended = true;
      frames += wire::websocket::make_masked_frame(Opcode::text, R"({"type":"eof"})", kNoMask);
    } else if (*taken) {
      std::string_view rest = **taken;
      while (!rest.empty()) {
        const std::string_view piece = rest.substr(0, kInputBytesMax);
        rest.remove_prefix(piece.size());
        frames += wire::websocket::make_masked_frame(
            Opcode::binary, base::cat(std::string_view("\0", 1), piece), kNoMask);
      }
    }
    if (!frames.empty()) {
      const auto written = co_await stream.write_all(frames, kPatience);
      if (!written) {
        co_return;  // it has ended; how, comes the other way
      }
      continue;
    }
    const auto wake = co_await channel_.transport().activity().wait(Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
  both.cancel();
}

Task<void> CommandChannel::pass_output(net::Stream& stream, std::string early,
                                       net::TaskGroup& both) {
  wire::websocket::Decoder decoder(wire::websocket::Role::client, kMessageBytesMax);
  bool more = co_await take_frames(decoder, early);
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  while (more) {
    const auto size = co_await stream.read_some({buffer.get(), kReadBytes}, Deadline::never());
    if (!size || *size == 0) {
      break;
    }
    more = co_await take_frames(decoder, {buffer.get(), *size});
  }
  both.cancel();
}

// False: nothing more comes, or it cannot be passed on.
Task<bool> CommandChannel::take_frames(wire::websocket::Decoder& decoder, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto step = decoder.next(bytes);
    if (!step) {
      co_return false;
    }
    bytes.remove_prefix(step->consumed);
    if (!step->event) {
      continue;
    }
    const Event& event = *step->event;
    if (event.kind == Event::Kind::close) {
      co_return false;
    }
    if (event.kind == Event::Kind::text) {
      note_exit(event.payload);
    }
    if (event.kind == Event::Kind::binary && !event.payload.empty()) {
      const char channel = event.payload.front();
      if (channel == kChannelOut || channel == kChannelErr) {
        const auto sent = co_await channel_.send(event.payload.substr(1), channel == kChannelErr);
        if (!sent) {
          co_return false;
        }
      }
    }
  }
  co_return true;
}

void CommandChannel::note_exit(std::string_view text) {
  const auto object = wire::json::parse_object(text);
  if (!object) {
    return;
  }
  wire::json::Reader reader(*object);
  const auto type = reader.optional<std::string>("type");
  const auto code = reader.optional<int64_t>("exit_code");
  const auto signal = reader.optional<std::string>("signal");
  if (!type || *type != "exit" || !code || !*code) {
    return;
  }
  exit_status_ = static_cast<int>(**code);
  if (signal && *signal) {
    exit_signal_ = **signal;
  }
}

}  // namespace ssh
