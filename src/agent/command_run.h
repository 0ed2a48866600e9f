// One command whose output is kept until it has ended: what /run and /exec have in common. Made by
// the request's coroutine, lives in its frame until finish() has returned; loop thread only. Output
// beyond what OutputStore keeps is read and dropped, so that the command never blocks on it.
#pragma once

#include <memory>
#include <optional>

#include "agent/client_watch.h"
#include "agent/command.h"
#include "agent/command_input.h"
#include "agent/output_pipe.h"
#include "agent/output_store.h"
#include "net/stream.h"

namespace agent {

class CommandRun {
 public:
  // `output_limit`: of each stream's kept bytes.
  CommandRun(Agent& agent, net::Stream& client, CommandRequest request, uint64_t output_limit);
  ~CommandRun() { close(); }
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;

  // With an input, input() is to be fed and finished; without, it ends at once.
  Result<void> start(bool with_input);
  // From now on the end of the client's connection is leave(). Nothing may be read from it.
  void watch_client();
  // Sends keep-alives while the command is silent.
  void keep_client_awake() { keep_awake_ = true; }
  // Until the command has ended, and in a time-out or without a client its whole tree. Must not be
  // cancelled: leave() says that nobody waits any more.
  net::Task<void> finish();
  // finish() for a coroutine that may be cancelled, which is then leave().
  net::Task<void> finish_or_leave();
  // The client is gone.
  void leave();

  [[nodiscard]] CommandInput& input() { return input_; }
  [[nodiscard]] Command& command() { return command_; }
  [[nodiscard]] bool client_gone() const { return client_gone_; }
  [[nodiscard]] bool head_written() const { return head_written_; }
  [[nodiscard]] const OutputStore& output() const { return out_.store; }
  [[nodiscard]] const OutputStore& error() const { return err_.store; }
  // See Command::outcome; adds its complaint to the error output. Once, after finish().
  Result<RunOutcome> outcome();

 private:
  struct Lane {
    OutputPipe pipe;
    OutputStore store;
  };

  void watch_output(Lane& lane);
  // Takes one piece of at most that size: how many bytes.
  size_t take_piece(Lane& lane, size_t bytes_max);
  void drain(Lane& lane);
  void close();
  net::Task<void> keep_awake();
  [[nodiscard]] bool must_stop() const { return client_gone_ || command_.is_late(); }

  Agent& agent_;
  net::Stream& client_;
  Command command_;
  CommandInput input_;
  Lane out_;
  Lane err_;
  std::optional<ClientWatch> client_watch_;
  base::SteadyTime last_sign_;
  bool keep_awake_ = false;
  bool client_gone_ = false;
  bool head_written_ = false;
};

}  // namespace agent
