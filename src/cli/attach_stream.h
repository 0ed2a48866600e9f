// The live stream of one session over as many WebSockets as it takes: bytes of the session's
// output out, input and sizes in. It counts the output's offset, so a broken connection or a
// gateway that restarts costs neither a byte nor shows one twice; input that was on its way then
// may be lost, input given meanwhile is sent afterwards. Owned by a SessionPump; one thread; holds
// at most kInputBytesMax of input. While its output is full it reads nothing, which holds the
// command up, and tells the other end that it is alive. Fails when the session cannot be reached
// for kGiveUpTime, and at once when the gateway refuses it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/output_queue.h"
#include "cli/raw_terminal.h"
#include "cli/web_socket.h"

namespace cli {

// How a session ended.
struct SessionEnd {
  int exit_code = 0;
  bool timed_out = false;
  bool oom_killed = false;
};
SessionEnd parse_session_end(const wire::json::Object& object);

class AttachStream {
 public:
  static constexpr size_t kInputBytesMax = 256UL * 1024;
  static constexpr std::chrono::seconds kGiveUpTime{60};

  // `target` is asked for first, `/sessions/…/attach` or `/terminal`; with an offset it gets
  // `offset=` as a parameter.
  AttachStream(Context& context, std::string target, std::optional<uint64_t> offset,
               OutputQueue& output);

  // The first connection; errors of the gateway are given back, not repeated.
  Result<void> open();
  // Where to go after a lost connection, when that is another route.
  void resume_at(std::string target) { target_ = std::move(target); }

  // For the owner's loop: the descriptor, and the milliseconds after which step() has work anyway.
  int add_waits(std::vector<pollfd>& waits);
  Result<void> step();

  [[nodiscard]] bool takes_input() const;
  void send_input(std::string_view bytes);
  void send_end_of_input();
  void send_size(TerminalSize size);

  [[nodiscard]] OutputQueue& output() { return output_; }
  [[nodiscard]] const std::optional<SessionEnd>& end() const { return end_; }
  [[nodiscard]] std::optional<uint64_t> offset() const { return offset_; }
  // Output that the session no longer had when we asked for it.
  [[nodiscard]] uint64_t lost_bytes() const { return lost_bytes_; }

 private:
  Result<void> connect();
  Result<void> exchange();
  Result<void> stand_still();
  Result<void> lose(const base::Error& error);
  Result<void> take(const wire::websocket::Event& event);
  Result<void> take_note(std::string_view text);
  Result<void> take_offset(uint64_t offset);
  void send_note(const wire::json::Object& note);

  Context& context_;
  std::string target_;
  std::optional<uint64_t> offset_;
  OutputQueue& output_;
  std::unique_ptr<WebSocket> socket_;
  std::unique_ptr<Progress> progress_;  // while there is no connection
  std::string waiting_input_;           // given while there was no connection
  bool waiting_end_ = false;
  bool more_ = false;  // the last step left something to read
  std::optional<TerminalSize> size_;
  std::optional<SessionEnd> end_;
  uint64_t lost_bytes_ = 0;
  int failures_ = 0;
  base::SteadyTime last_heard_;
  base::SteadyTime lost_at_;
  base::SteadyTime next_attempt_;
  base::SteadyTime next_sign_of_life_;
};

}  // namespace cli
