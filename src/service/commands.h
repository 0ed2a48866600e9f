// Commands: the one place where every command that a caller starts is known, from its start to its
// end, whatever surface it came by. What counts or logs commands belongs here. Owned by
// main; loop thread only.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "service/access.h"
#include "service/context.h"

namespace service {

// The surface it came by. A session's `end` is the end of the request that started it.
enum class CommandKind { run, exec, stream, session, terminal };
std::string_view to_string(CommandKind kind);

struct CommandStart {
  CommandKind kind = CommandKind::run;
  std::string argv_text;  // what is run, cut to a few hundred bytes; never env
  std::string user;       // as asked for; empty: the sandbox's
  std::string request_id;
};

// What became of it, as far as the gateway saw.
struct CommandEnd {
  int status = 0;                // of the answer; 499: the client went away
  std::optional<int> exit_code;  // where the agent's head told
  int64_t duration_ms = 0;
};

class Commands {
 public:
  explicit Commands(Context& context) : context_(context) {}
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // One command, while its request lasts. Ends once, at the latest when it goes.
  class Running {
   public:
    Running(Commands& commands, LivePtr live, Caller caller, CommandStart start);
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { end(0, std::nullopt); }
    void end(int status, std::optional<int> exit_code);

   private:
    Commands& commands_;
    LivePtr live_;  // null once it has ended
    Caller caller_;
    CommandStart start_;
    base::SteadyTime began_;
  };

  // How many were started by that surface.
  [[nodiscard]] uint64_t started(CommandKind kind) const {
    return started_.at(static_cast<size_t>(kind));
  }

 private:
  void began(const Live& live, const Caller& caller, const CommandStart& start);
  void ended(const Live& live, const Caller& caller, const CommandStart& start,
             const CommandEnd& end);

  static constexpr size_t kKinds = 5;
  Context& context_;
  std::array<uint64_t, kKinds> started_{};
};

}  // namespace service
