#include "agent/command_channel.h"

#include <fcntl.h>

#include <array>
#include <memory>
#include <optional>

#include "agent/answers.h"
#include "agent/client_watch.h"
#include "agent/command.h"
#include "agent/command_input.h"
#include "agent/command_output.h"
#include "agent/log_framing.h"
#include "agent/login.h"
#include "agent/uncancelled.h"
#include "wire/websocket.h"

namespace agent {
namespace {

using net::Deadline;
using wire::websocket::Event;
using wire::websocket::make_frame;
using wire::websocket::Opcode;

constexpr size_t kMessageBytesMax = size_t{1024} * 1024;
constexpr size_t kReadBytes = size_t{64} * 1024;
// How long a client may take to close behind our close.
constexpr base::Milliseconds kClosePatience{2'000};
// A reader may stand still as long as its connection lives; its end is told by the connection.
constexpr base::Milliseconds kReaderPatience{std::chrono::hours(24 * 7)};
// How often a client that has to wait with its input is looked after.
constexpr base::Milliseconds kClientLook{500};
constexpr char kChannelInput = 0;
constexpr std::string_view kChannelOut = "\x01";
constexpr std::string_view kChannelErr = "\x02";
constexpr std::string_view kSwitching =
    "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n";

class CommandChannel {
 public:
  CommandChannel(Agent& agent, net::Stream& client, net::HttpReader& reader, SessionRequest request)
      : agent_(agent),
        client_(client),
        reader_(reader),
        terminal_(request.terminal),
        command_(agent, std::move(static_cast<CommandRequest&>(request))),
        input_(agent.loop),
        output_(agent.loop),
        decoder_(wire::websocket::Role::server, kMessageBytesMax) {}
  ~CommandChannel() { close(); }
  CommandChannel(const CommandChannel&) = delete;
  CommandChannel& operator=(const CommandChannel&) = delete;

  Result<void> start() {
    ASSIGN_OR_RETURN(const auto descriptors, terminal_ ? open_terminal_of_user() : open_pipes());
    RETURN_IF_ERROR(command_.start(descriptors));
    for (base::Fd& end : childs_ends_) {
      end.reset();
    }
    return {};
  }

  // The command's end, whoever brings it about. Not to be cancelled: leave() is.
  Task<void> supervise() {
    while (!command_.ended() && !client_gone_ && !command_.is_late()) {
      [[maybe_unused]] const auto wake =
          co_await command_.changed().wait(Deadline::at(command_.time_out_at()));
    }
    if (!command_.ended() && client_gone_ && terminal_) {
      co_await hang_up();
    } else if (!command_.ended() && client_gone_) {
      co_await command_.end_users_of(streams_);
    } else if (!command_.ended()) {
      command_.note_time_out();
      co_await command_.end_tree();
    }
    output_.end();
    command_.changed().notify();
  }

  // Tells all output and the end, and takes what the client sends meanwhile. Not to be cancelled.
  Task<void> converse() {
    co_await command_.wait_executed();
    if (command_.ended() && !command_.outcome()) {
      co_return;  // nothing ran: an ordinary error answer
    }
    upgraded_ = true;
    co_await write(kSwitching, {});
    net::TaskGroup listening(client_.loop());
    listening.spawn(listen(reader_.take_buffered()));
    co_await tell();
    listening.cancel();
    co_await listening.join();
  }

  void leave() {
    client_gone_ = true;
    command_.changed().notify();
  }
  [[nodiscard]] bool upgraded() const { return upgraded_; }
  [[nodiscard]] Result<RunOutcome> outcome() const { return command_.outcome(); }

 private:
  Result<Command::Descriptors> open_pipes() {
    ASSIGN_OR_RETURN(childs_ends_[0], input_.open_pipe());
    ASSIGN_OR_RETURN(childs_ends_[1], output_.open_pipe(CommandOutput::out));
    ASSIGN_OR_RETURN(childs_ends_[2], output_.open_pipe(CommandOutput::err));
    for (const base::Fd& end : childs_ends_) {
      streams_.push_back(identity_of(end.get()));
    }
    return Command::Descriptors{.input = childs_ends_[0].get(),
                                .output = childs_ends_[1].get(),
                                .error = childs_ends_[2].get(),
                                .tell_executed = true};
  }

  Result<Command::Descriptors> open_terminal_of_user() {
    const auto user = command_.request().user;
    ASSIGN_OR_RETURN(const Identity owner, agent_.accounts.find(user.value_or(agent_.config.user)));
    ASSIGN_OR_RETURN(Terminal terminal, open_terminal(*terminal_, owner));
    const auto copy = [&terminal] {
      return base::Fd(::fcntl(terminal.master.get(), F_DUPFD_CLOEXEC, 0));
    };
    output_.use_terminal(copy());
    input_.use_terminal(copy());
    master_ = std::move(terminal.master);
    childs_ends_[0] = std::move(terminal.slave);
    const int slave = childs_ends_[0].get();
    return Command::Descriptors{
        .input = slave, .output = slave, .error = slave, .terminal = true, .tell_executed = true};
  }

  // As when a modem loses its line: the kernel sends SIGHUP to the shell and to what is in front.
  // Who ignores it lives on.
  Task<void> hang_up() {
    close();
    while (!command_.ended()) {
      [[maybe_unused]] const auto wake = co_await command_.changed().wait(Deadline::never());
    }
  }

  // --- output ----------------------------------------------------------------------------------

  Task<void> tell() {
    while (!client_gone_) {
      if (const auto piece = output_.read()) {
        const std::string_view channel =
            piece->stream == CommandOutput::out ? kChannelOut : kChannelErr;
        const wire::websocket::FrameHead head(Opcode::binary, channel.size() + piece->size);
        co_await write(base::cat(head.bytes(), channel), piece->bytes());
      } else if (output_.drained()) {
        co_await tell_end();
        co_return;
      } else {
        [[maybe_unused]] const auto wake =
            co_await output_.wait(command_.changed(), Deadline::never());
      }
    }
  }

  Task<void> tell_end() {
    std::string frames;
    if (const std::string complaint = command_.complaint(); !complaint.empty()) {
      frames +=
          make_frame(Opcode::binary, base::cat(terminal_ ? kChannelOut : kChannelErr, complaint));
    }
    const RunOutcome outcome = command_.outcome().value_or(RunOutcome{});
    frames += exit_frame(outcome);
    frames += make_frame(Opcode::close,
                         wire::websocket::close_payload(wire::websocket::kCloseNormal, ""));
    co_await write(frames, {});
    client_.shutdown_write();
    const Deadline deadline = Deadline::after(kClosePatience);
    while (listening_) {
      const auto wake = co_await command_.changed().wait(deadline);
      if (wake != net::EventLoop::Wake::ready) {
        break;
      }
    }
  }

  Task<void> write(std::string_view first, std::string_view second) {
    if (const auto written = co_await client_.write_all(first, second, kReaderPatience); !written) {
      leave();
    }
  }

  // --- input -----------------------------------------------------------------------------------

  Task<void> listen(std::string early) {
    co_await take(early);
    const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
    for (;;) {
      const auto count = co_await client_.read_some({buffer.get(), kReadBytes}, Deadline::never());
      if (!count || *count == 0) {
        break;
      }
      co_await take({buffer.get(), *count});
    }
    listening_ = false;
    leave();
  }

  Task<void> take(std::string_view bytes) {
    while (!bytes.empty() && !closed_) {
      const auto step = decoder_.next(bytes);
      if (!step) {
        refuse();
        co_return;
      }
      bytes.remove_prefix(step->consumed);
      if (step->event) {
        co_await handle(*step->event);
      }
    }
  }

  Task<void> handle(Event event) {
    if (event.kind == Event::Kind::binary) {
      co_await take_input(event.payload);
    } else if (event.kind == Event::Kind::text) {
      if (const auto done = obey(event.payload);
          !done && done.error().code != ErrorCode::session_exited) {
        refuse();
      }
    } else if (event.kind == Event::Kind::close) {
      refuse();
    }
  }

  Task<void> take_input(std::string_view payload) {
    if (payload.empty() || payload.front() != kChannelInput) {
      refuse();
      co_return;
    }
    std::string bytes(payload.substr(1));
    while (input_.is_open() && !input_.has_room() && !client_gone_) {
      const auto wake = co_await input_.changed().wait(Deadline::after(kClientLook));
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return;
      }
      if (wake == net::EventLoop::Wake::deadline && peer_has_closed(client_.fd())) {
        refuse();
        co_return;
      }
    }
    if (input_.is_open()) {
      input_.add(std::move(bytes));
    }
  }

  // {"type":"resize","cols","rows"}, {"type":"eof"}, {"type":"signal","signal"}, as an attached
  // session takes them, and {"type":"output_closed"} of a client whose own reader is gone.
  Result<void> obey(std::string_view text) {
    ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(text));
    wire::json::Reader reader(object);
    ASSIGN_OR_RETURN(const auto type, reader.required<std::string>("type"));
    if (type == "resize") {
      ASSIGN_OR_RETURN(const WindowSize size, read_window_size(reader));
      RETURN_IF_ERROR(reader.finish());
      return master_ ? set_window_size(master_.get(), size) : Result<void>{};
    }
    if (type == "signal") {
      ASSIGN_OR_RETURN(const auto name, reader.required<std::string>("signal"));
      RETURN_IF_ERROR(reader.finish());
      ASSIGN_OR_RETURN(const int number, parse_signal(name));
      if (!command_.ended()) {
        command_.signal(number);
      }
      return {};
    }
    if (type == "eof") {
      RETURN_IF_ERROR(reader.finish());
      input_.finish();
      return {};
    }
    if (type == "output_closed") {
      RETURN_IF_ERROR(reader.finish());
      output_.refuse(CommandOutput::out);
      return {};
    }
    return base::fail_field("type", "there is no message of type '", type, "'");
  }

  // What breaks the protocol ends the connection.
  void refuse() {
    closed_ = true;
    leave();
  }

  void close() {
    output_.close(agent_.leftovers);
    input_.close();
    master_.reset();
  }

  Agent& agent_;
  net::Stream& client_;
  net::HttpReader& reader_;
  const std::optional<WindowSize> terminal_;
  Command command_;
  CommandInput input_;
  CommandOutput output_;
  std::array<base::Fd, 3> childs_ends_;  // until it has started
  std::vector<FileIdentity> streams_;    // those ends, where they are pipes
  base::Fd master_;                      // of its terminal, for its size
  wire::websocket::Decoder decoder_;
  bool closed_ = false;  // nothing more is taken from the client
  bool listening_ = true;
  bool upgraded_ = false;
  bool client_gone_ = false;
};

}  // namespace

Result<SessionRequest> parse_channel_request(Agent& agent, std::string_view body) {
  constexpr std::string_view kLoginShell = "login_shell";
  ASSIGN_OR_RETURN(auto object, wire::json::parse_object(body));
  const auto* const login = object.if_contains(kLoginShell);
  const bool is_login = login != nullptr && login->is_bool() && login->get_bool();
  SessionRequest request;
  if (is_login && !object.contains("argv")) {
    object["argv"] = wire::json::Array{"-"};  // make_login() puts its own name there
  }
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN([[maybe_unused]] const auto taken, reader.optional<bool>(kLoginShell));
  ASSIGN_OR_RETURN(const auto terminal, reader.optional<wire::json::Object>("tty"));
  ASSIGN_OR_RETURN(static_cast<CommandRequest&>(request), read_command_request(reader));
  RETURN_IF_ERROR(reader.finish());
  if (terminal) {
    wire::json::Reader size_reader(*terminal, "tty");
    ASSIGN_OR_RETURN(request.terminal, read_window_size(size_reader));
    RETURN_IF_ERROR(size_reader.finish());
  }
  if (is_login) {
    RETURN_IF_ERROR(make_login(agent, request));
  }
  add_terminal_environment(agent, request);
  return request;
}

Task<Result<void>> run_command_channel(Agent& agent, net::Stream& stream, net::HttpReader& reader,
                                       SessionRequest request) {
  CommandChannel channel(agent, stream, reader, std::move(request));
  CO_RETURN_IF_ERROR(channel.start());
  std::vector<Task<void>> tasks;
  tasks.push_back(channel.supervise());
  tasks.push_back(channel.converse());
  co_await run_uncancelled(agent.loop, [&channel] { channel.leave(); }, std::move(tasks));
  if (!channel.upgraded()) {
    co_return std::unexpected(channel.outcome().error());
  }
  co_return base::fail(ErrorCode::connection_closed, "the connection was the command's");
}

}  // namespace agent
