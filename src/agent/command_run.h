// One running command: its process, its tree, its pipes, its client. Made by run_command, lives in
// its frame until finish() has returned; loop thread only. Output beyond what OutputStore keeps is
// read and dropped, so that the command never blocks on it.
#pragma once

#include <memory>
#include <optional>

#include "agent/agent.h"
#include "agent/output_store.h"
#include "agent/run_answer.h"
#include "agent/run_request.h"
#include "net/stream.h"
#include "net/task_group.h"

namespace agent {

class CommandRun {
 public:
  CommandRun(Agent& agent, net::Stream& client, RunRequest request);
  ~CommandRun();
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;

  Result<void> start();
  // Until the command has ended, and in a time-out or without a client its whole tree; sends
  // keep-alives meanwhile. Must not be cancelled: leave() says that nobody waits any more.
  net::Task<void> finish();
  // The client is gone.
  void leave();

  [[nodiscard]] bool client_gone() const { return client_gone_; }
  [[nodiscard]] bool head_written() const { return head_written_; }
  [[nodiscard]] OutputEncoding encoding() const { return request_.encoding; }
  [[nodiscard]] const OutputStore& output() const { return out_.store; }
  [[nodiscard]] const OutputStore& error() const { return err_.store; }
  // How it ended; an error where the request asked for what cannot be started. A program that is
  // missing or cannot be run is an outcome (127, 126) with a line in error().
  Result<RunOutcome> outcome();

 private:
  struct Pump {
    base::Fd pipe;
    OutputStore store;
  };

  void ended(int status);
  void watch_output(Pump& pump);
  // False when the pipe gives nothing now; closes it at its end.
  bool read_once(Pump& pump, size_t bytes_max);
  void drain(Pump& pump);
  void write_input();
  void watch_client();
  void look_at_client();
  void close_pipes();
  net::Task<void> keep_awake();
  net::Task<void> end_tree();
  [[nodiscard]] bool must_stop() const;

  Agent& agent_;
  net::Stream& client_;
  RunRequest request_;
  std::unique_ptr<ProcessTree> tree_;
  std::unique_ptr<SpawnedCommand> command_;
  Pump out_;
  Pump err_;
  base::Fd input_;
  size_t input_written_ = 0;
  base::SteadyTime started_at_;
  base::SteadyTime ended_at_;
  base::SteadyTime last_sign_;
  uint64_t oom_kills_before_ = 0;
  std::optional<int> wait_status_;
  bool timed_out_ = false;
  bool client_gone_ = false;
  bool head_written_ = false;
  net::EventLoop::TimerId client_timer_ = 0;
  net::Event changed_;
};

}  // namespace agent
