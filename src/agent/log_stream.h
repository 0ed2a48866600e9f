// Tells a session's log to one client from an offset on, live or up to a bound: bytes that have
// just been read from the command go to the client straight, older ones are read from the log.
// Lives in the frame of the client's request; loop thread only. Holds one piece; a slow client
// holds up nobody but itself (see LogPace).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "agent/session.h"
#include "net/stream.h"

namespace agent {

// How a log's bytes are put on the wire.
class LogFraming {
 public:
  virtual ~LogFraming() = default;

  struct Framed {
    std::string head;       // before the bytes
    std::string_view body;  // the bytes where they pass as they are
    std::string tail;
  };
  virtual Framed frame(const SessionLog::Piece& piece, std::string_view bytes) = 0;
  // Whether bytes of different streams and times must come in pieces of their own.
  [[nodiscard]] virtual bool by_record() const { return true; }
  [[nodiscard]] virtual bool wants(OutputStream /*stream*/) const { return true; }
  // Said after a time of silence; may be empty.
  [[nodiscard]] virtual std::string silence() { return {}; }
  // Says that the bytes between are gone; nullopt where it cannot be said.
  virtual std::optional<std::string> skipped(uint64_t from, uint64_t to) = 0;
  // Behind the last piece. `over`: the session has ended, else only the bound was reached.
  virtual std::string finish(const Session& session, bool over) = 0;
};

class LogStream final : public LogFollower {
 public:
  // `position` is at most the log's end; before its start means from its start. `bound`: where to
  // stop; without one at the session's end. `silence`: after it the framing may say something.
  LogStream(SessionPtr session, net::Stream& client, LogFraming& framing, uint64_t position,
            std::optional<uint64_t> bound, base::Milliseconds silence);
  ~LogStream() override;
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;

  // Until all is told, stop() or the client's end. The client's socket must be written to by nobody
  // else meanwhile.
  net::Task<Result<void>> run();
  // Puts bytes between the log's, in order.
  void say(std::string_view bytes);
  // Ends run() behind what was said.
  void stop();
  // The client says that it is there although it takes nothing: it is waited for.
  void alive() { session_->alive(following_); }
  // The client is gone.
  void leave();
  // When the client last took something.
  [[nodiscard]] base::SteadyTime last_progress() const { return last_progress_; }
  [[nodiscard]] size_t waiting_bytes() const { return said_.size(); }

  void offer(const SessionLog::Piece& piece, std::string_view bytes) override;
  void wake() override { changed_.notify(); }

 private:
  // A sign of life that only went into the socket's buffer is nothing that the client took.
  enum class Parts { told, sign };
  net::Task<Result<void>> send(std::span<const std::string_view> parts, Parts kind = Parts::told);
  net::Task<Result<void>> tell_piece(uint64_t end);
  net::Task<Result<void>> wait();
  // One sendmsg(2): how many bytes went, negative on an error.
  ssize_t send_once(std::span<const std::string_view> parts);
  void moved(uint64_t position);

  SessionPtr session_;
  net::Stream& client_;
  LogFraming& framing_;
  uint64_t position_;
  std::optional<uint64_t> bound_;
  base::Milliseconds silence_;
  uint64_t hint_ = 0;
  std::string said_;
  bool waiting_ = false;  // all was told, run() waits for more
  bool stopping_ = false;
  bool gone_ = false;
  bool flooded_ = false;  // the client's socket did not take a piece whole
  base::SteadyTime last_progress_;
  base::SteadyTime last_sign_;
  net::Event changed_;
  Session::Following following_;
};

}  // namespace agent
