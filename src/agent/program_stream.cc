#include "agent/program_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "agent/acting_as.h"
#include "agent/answers.h"
#include "agent/command.h"
#include "agent/run_request.h"
#include "agent/uncancelled.h"

namespace agent {
namespace {

using net::Deadline;

constexpr size_t kBodyBytesMax = size_t{1024} * 1024;
// How often it is looked whether the client is still there: its bytes are the helper's to read.
constexpr base::Milliseconds kClientPoll{1000};

// Both directions are closed; one that has only said all it has to say is still there.
bool is_gone(int socket) {
  pollfd state{.fd = socket, .events = 0, .revents = 0};
  ::poll(&state, 1, 0);
  return (state.revents & (POLLHUP | POLLERR)) != 0;
}

// What the command would only say once the 101 is out, since a helper may write at once.
Result<void> check_folder(Agent& agent, const CommandRequest& request) {
  ASSIGN_OR_RETURN(const Identity identity,
                   agent.accounts.find(request.user.value_or(agent.config.user)));
  const std::string folder = from_workdir(agent.config, request.cwd);
  const ActingAs acting(identity);
  const base::Fd opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) {
    return std::unexpected(
        base::Error{.code = ErrorCode::cwd_invalid,
                    .message = base::cat("the working directory '", folder,
                                         "' cannot be entered: ", ::strerrordesc_np(errno)),
                    .details = {{"field", "cwd"}, {"path", folder}}});
  }
  return {};
}

// Until it has ended, by itself or because nobody wants it any more.
Task<void> supervise(Command& command, int socket, const bool& left) {
  co_await command.wait_executed();
  while (!command.ended() && !left && !command.is_late() && !is_gone(socket)) {
    const auto next = std::min(Deadline::after(kClientPoll).time(), command.time_out_at());
    [[maybe_unused]] const auto wake = co_await command.changed().wait(Deadline::at(next));
  }
  if (!command.ended()) {
    co_await command.end_tree();
  }
  command.kill_remains();
}

}  // namespace

Task<Result<void>> switch_to_stream(net::Stream& stream) {
  const std::string head = base::cat(
      "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ", kStreamProtocol,
      "\r\n\r\n");
  co_return co_await stream.write_all(head, kAnswerPatience);
}

Task<Result<void>> run_helper_stream(Agent& agent, net::Stream& stream, net::HttpReader& reader,
                                     const wire::http::Request& request) {
  CO_ASSIGN_OR_RETURN(const std::string body,
                      co_await read_body(stream, reader, request, kBodyBytesMax));
  CO_ASSIGN_OR_RETURN(CommandRequest wanted, parse_exec_request(body));
  if (!wanted.is_helper) {
    co_return base::fail_field("helper", "this route starts helpers only");
  }
  if (reader.has_buffered()) {
    co_return base::fail(ErrorCode::malformed, "there were bytes behind the request");
  }
  CO_RETURN_IF_ERROR(check_folder(agent, wanted));
  CO_RETURN_IF_ERROR(co_await switch_to_stream(stream));
  // Nobody else uses the connection from here on.
  const int socket = stream.fd();
  agent.loop.forget(socket);
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
  Command command(agent, std::move(wanted));
  const auto started = command.start(
      {.input = socket, .output = socket, .error = agent.null_device.get(), .tell_executed = true});
  if (started) {
    bool left = false;
    std::vector<Task<void>> tasks;
    tasks.push_back(supervise(command, socket, left));
    co_await run_uncancelled(
        agent.loop,
        [&left, &command] {
          left = true;
          command.changed().notify();
        },
        std::move(tasks));
  }
  co_return base::fail(ErrorCode::connection_closed, "the connection was the helper's");
}

}  // namespace agent
