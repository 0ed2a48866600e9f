// The container's own command, where the container is one of several: started when the sandbox's
// start comes to it, watched by its healthcheck, run again as its policy says. Nobody else has to
// stay for that: whoever starts a sandbox asks here how far it is, and may be another one than
// began. Owned by the server; loop thread only. Bounds: one command and one check at a time,
// kCheckOutputMax bytes of a check's output.
#pragma once

#include <string>

#include "agent/sessions.h"
#include "net/task_group.h"

namespace agent {

class Service {
 public:
  Service(Agent& agent, Sessions& sessions);

  // Fills fresh volumes and starts the command; again: nothing happens. Errors: of the volumes,
  // and then nothing was started.
  Result<void> start();
  // Ends the command's whole tree for good.
  void stop();
  // Until its state is another than at `version`, or the deadline.
  net::Task<void> wait_change(uint64_t version, net::Deadline deadline);
  // {"state":"waiting"|"running"|"restarting"|"exited"|"idle","exit_code","health":"none"|
  // "starting"|"healthy"|"unhealthy","restarts","output","check_output","version"}. `output`: the
  // end of what a command that has ended wrote.
  [[nodiscard]] std::string json() const;
  [[nodiscard]] uint64_t version() const { return version_; }
  // For the end of the agent.
  net::Task<void> end();

 private:
  enum class State : uint8_t { waiting, running, restarting, exited, idle };
  enum class Health : uint8_t { none, starting, healthy, unhealthy };

  net::Task<void> run();
  net::Task<void> check_health();
  net::Task<void> check_once(bool counts);
  net::Task<void> sleep(base::Milliseconds time);
  [[nodiscard]] bool runs_again(int exit_code) const;
  void change(State state);
  void set_health(Health health);
  void note_change();

  Agent& agent_;
  Sessions& sessions_;
  const ServiceConfig& config_;
  State state_ = State::waiting;
  Health health_ = Health::none;
  uint64_t version_ = 1;
  int64_t restarts_ = 0;
  int64_t failures_ = 0;  // of the check, in a row
  std::string check_output_;
  SessionPtr session_;
  SessionPtr check_;
  base::SteadyTime began_;
  bool started_ = false;
  bool stopping_ = false;
  net::Event changed_;
  net::TaskGroup group_;
};

}  // namespace agent
