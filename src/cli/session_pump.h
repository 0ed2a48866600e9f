// One session between the user and the gateway: its output to standard output and error, the
// user's input and sizes to it, until it ends, the user leaves, or a signal arrives. Owned by a
// command; one thread, one loop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/attach_stream.h"
#include "cli/raw_terminal.h"
#include "cli/session_input.h"

namespace cli {

struct PumpOutcome {
  std::optional<SessionEnd> end;
  int signal = 0;     // that ended it
  bool left = false;  // the user went, the session goes on
};

class SessionPump {
 public:
  // `input` and `terminal` may be null.
  SessionPump(Context& context, AttachStream& stream, SessionInput* input, RawTerminal* terminal)
      : context_(context), stream_(stream), input_(input), terminal_(terminal) {}

  // A signal deletes the session at that target and goes on until it is gone; a second one leaves
  // at once. Without this the first one leaves.
  void cancel_on_signal(std::string session_target) { cancel_target_ = std::move(session_target); }

  Result<PumpOutcome> run();

 private:
  Result<void> turn();
  void wait();
  [[nodiscard]] bool finished() const;
  void begin_cancel();
  void step_cancel();

  Context& context_;
  AttachStream& stream_;
  SessionInput* input_;
  RawTerminal* terminal_;
  std::string cancel_target_;
  std::unique_ptr<HttpClient> canceller_;
  bool cancelled_ = false;       // and the gateway has said so
  base::SteadyTime cancel_end_;  // then it is left to itself
  int signal_ = 0;
};

}  // namespace cli
