// A command that outlives the requests that start, feed and follow it: its process, its terminal or
// pipes, its log, its followers. Shared by the registry and by the requests that use it; loop
// thread only. Memory: a read's buffer while reading, the log's index, at most one pipe of queued
// input. Its client's end never ends it.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "agent/command.h"
#include "agent/command_input.h"
#include "agent/log_pace.h"
#include "agent/output_pipe.h"
#include "agent/session_log.h"
#include "agent/session_request.h"

namespace agent {

// Whoever tells a session's log to somebody. Joins and leaves the session itself.
class LogFollower {
 public:
  virtual ~LogFollower() = default;
  // These bytes have just become the log's end. For one that has told all before them it is quicker
  // to take them here than from the log.
  virtual void offer(const SessionLog::Piece& piece, std::string_view bytes) = 0;
  // The session is over.
  virtual void wake() = 0;
};

class Session {
 public:
  Session(Agent& agent, std::string id, SessionRequest request);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Starts the process. Errors: those of Command::start, agent_failed.
  Result<void> start();
  // After start(), beside everything else: until the session is over. Must not be cancelled.
  net::Task<void> supervise();
  // Of the registry's own: over before it began, with this line in its log.
  void fail(std::string_view line);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::string& name() const { return request_.name; }
  [[nodiscard]] bool has_terminal() const { return request_.terminal.has_value(); }
  // Its program runs, or could not be run: then failure() tells what is wrong with the request.
  [[nodiscard]] bool settled() const { return settled_; }
  [[nodiscard]] const std::optional<base::Error>& failure() const { return failure_; }
  // The command has ended and its log is whole.
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] const RunOutcome& outcome() const { return outcome_; }
  // Notified when settled() or over() becomes true.
  [[nodiscard]] net::Event& changed() { return command_.changed(); }
  [[nodiscard]] const SessionLog& log() const { return log_; }
  // As the API shows it.
  [[nodiscard]] std::string json() const;
  // {"exit_code":...,"signal":...,...}; only when over.
  [[nodiscard]] std::string exit_json() const;

  // Input. Bytes taken so far, and the wish for more (see CommandInput).
  [[nodiscard]] uint64_t input_bytes() const { return input_bytes_; }
  [[nodiscard]] CommandInput& input() { return input_; }
  [[nodiscard]] bool input_finished() const { return input_finished_; }
  void give_input(std::string_view bytes);
  void finish_input();
  // One request writes at a time.
  bool input_taken = false;

  // Errors: session_exited; conflict without a terminal.
  Result<void> resize(WindowSize size);
  Result<void> signal(int number);
  // Ends the whole tree, what was left by a command that has ended included; `at_once` without a
  // grace.
  void end(bool at_once);

  using Following = std::list<std::pair<LogFollower*, LogPace::Handle>>::iterator;
  Following join(LogFollower& follower, uint64_t position);
  void moved(Following following, uint64_t position);
  void alive(Following following);
  void leave(Following following);

 private:
  struct Lane {
    OutputPipe pipe;
    OutputStream stream;
  };

  Result<Command::Descriptors> open_pipes();
  Result<Command::Descriptors> open_terminal_of(const Identity& owner);
  void pump(Lane& lane);
  void watch(Lane& lane);
  size_t take_piece(Lane& lane, size_t bytes_max);
  size_t take_flood(Lane& lane, size_t bytes_max);
  void add(OutputStream stream, std::string_view bytes);
  void offer(const SessionLog::Piece& piece, std::string_view bytes);
  void wait_for_followers(base::SteadyTime until);
  void go_on();
  net::Task<void> drain(Lane& lane);
  net::Task<void> end_command();
  void conclude();

  Agent& agent_;
  const std::string id_;
  SessionRequest request_;
  const std::string shown_argv_;  // as JSON
  Command command_;
  CommandInput input_;
  std::array<Lane, 2> lanes_;
  std::array<base::Fd, 3> childs_ends_;  // until it has started
  base::Fd master_;                      // of its terminal, for its size
  SessionLog log_;
  LogPace pace_;
  std::list<std::pair<LogFollower*, LogPace::Handle>> followers_;
  net::EventLoop::TimerId pause_ = 0;  // of a command that is held up
  uint64_t input_bytes_ = 0;
  bool input_finished_ = false;
  bool settled_ = false;
  bool ending_ = false;
  bool at_once_ = false;
  bool concluding_ = false;
  bool over_ = false;
  std::optional<base::Error> failure_;
  RunOutcome outcome_;
  base::WallTime started_at_;
  base::WallTime ended_at_;
};

using SessionPtr = std::shared_ptr<Session>;

}  // namespace agent
