// One command from its start to its end: its process, its tree, how it ended. The core of every
// route that runs one; who owns it makes its descriptors and reads its output. Loop thread only.
// It must have ended before it is destroyed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "agent/agent.h"
#include "agent/command_request.h"
#include "net/task_group.h"

namespace agent {

struct RunOutcome {
  int exit_code = 0;
  std::string signal;  // "KILL"; empty: none
  bool timed_out = false;
  bool oom_killed = false;
  int64_t duration_ms = 0;
};

// exit_code and signal of a wait status: 128 + N for signal N.
RunOutcome outcome_of_status(int status);

class Command {
 public:
  // The command's ends; the agent's /dev/null is a good input.
  struct Descriptors {
    int input = -1;
    int output = -1;
    int error = -1;
    bool terminal = false;       // `input` is to be its controlling terminal
    bool tell_executed = false;  // wait_executed() will be asked
  };

  Command(Agent& agent, CommandRequest request);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Errors: what prepare_command says; overloaded where there is no process to be had.
  Result<void> start(const Descriptors& descriptors);
  // After start: until the program itself runs, or could not be run and the process was reaped.
  net::Task<void> wait_executed();

  [[nodiscard]] const CommandRequest& request() const { return request_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool ended() const { return wait_status_.has_value(); }
  [[nodiscard]] base::SteadyTime started_at() const { return started_at_; }
  // When it is to be ended by its time-out; the end of time without one.
  [[nodiscard]] base::SteadyTime time_out_at() const;
  [[nodiscard]] bool is_late() const;
  // Notified at its end, and by its owner where something else is waited for with it.
  [[nodiscard]] net::Event& changed() { return changed_; }

  // To the whole tree.
  void signal(int number);
  // TERM for all, KILL for who is left after the grace; returns when it has ended and none is left.
  // Must not be cancelled.
  net::Task<void> end_tree();
  // The same for the command itself and for what still has one of these files as a standard stream.
  // What has none of them any more lives on, as what a command leaves behind does.
  net::Task<void> end_users_of(std::vector<FileIdentity> files);
  // KILL for what it left behind.
  void kill_remains();
  // It was ended for being late.
  void note_time_out() { timed_out_ = true; }
  // What it started and left running is no longer its own.
  void let_go();
  // The same where nothing is left of it, or where what is left could not be told from others
  // later.
  void let_go_if_alone();

  // How it ended; an error where the request asked for what cannot be started. A program that is
  // not found or not executable is an outcome.
  Result<RunOutcome> outcome() const;
  // Gives back what was held to start it, a script of megabytes perhaps. After the last outcome().
  void release();
  // A line for its error output where its program could not be run; else empty.
  [[nodiscard]] std::string complaint() const;

 private:
  void ended_with(int status);

  Agent& agent_;
  CommandRequest request_;
  std::unique_ptr<ProcessTree> tree_;
  std::unique_ptr<SpawnedCommand> command_;
  pid_t pid_ = 0;
  base::Fd executed_;  // ends when the program runs
  base::SteadyTime started_at_;
  base::SteadyTime ended_at_;
  uint64_t oom_kills_before_ = 0;
  std::optional<int> wait_status_;
  bool timed_out_ = false;
  net::Event changed_;
};

}  // namespace agent
