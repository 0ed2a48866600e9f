// What is given to a session's input: keys of a terminal over the stream itself, or a pipe's bytes
// by requests beside it, which say how many were taken. Owned by a SessionPump; one thread; each
// holds a bounded amount.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/attach_stream.h"
#include "cli/escape_filter.h"
#include "cli/http_client.h"

namespace cli {

class SessionInput {
 public:
  SessionInput() = default;
  SessionInput(const SessionInput&) = delete;
  SessionInput& operator=(const SessionInput&) = delete;
  virtual ~SessionInput() = default;
  // For the owner's loop: what to poll for, and the milliseconds after which step() has work
  // anyway (-1: none).
  virtual int add_waits(std::vector<pollfd>& waits) = 0;
  virtual Result<void> step() = 0;
  // Whoever types wants to go, or is gone.
  [[nodiscard]] virtual bool left() const { return false; }
  // Gives up what is still to be sent.
  virtual void abandon() {}
};

// Keys, with "~." as the way out where `escapes`.
class TerminalInput final : public SessionInput {
 public:
  TerminalInput(AttachStream& stream, bool escapes) : stream_(stream), escapes_(escapes) {}
  int add_waits(std::vector<pollfd>& waits) override;
  Result<void> step() override;
  [[nodiscard]] bool left() const override { return left_; }

 private:
  AttachStream& stream_;
  bool escapes_;
  EscapeFilter filter_;
  bool ended_ = false;
  bool left_ = false;
};

// What standard input has at this moment, without waiting; `ended` when that was all.
struct EarlyInput {
  std::string bytes;
  bool ended = false;
};
Result<EarlyInput> read_early_input();

// Standard input to its end, in the order it comes, each byte once: a request whose answer got
// lost is made again with the same offset, which the session knows.
class PipeInput final : public SessionInput {
 public:
  // The only writer of a session makes a lost request again and ends the session's input with its
  // own; one of several does neither.
  enum class Writer { only, one_of_several };

  // `target` is the session's; `early` was read already.
  PipeInput(Context& context, std::string target, EarlyInput early, Writer writer);
  int add_waits(std::vector<pollfd>& waits) override;
  Result<void> step() override;
  void abandon() override;

 private:
  Result<void> read_more();
  void post();
  Result<void> take_answer(Result<HttpResponse> answer);
  Result<void> take_count(const std::string& body);
  [[nodiscard]] bool something_to_send() const;
  [[nodiscard]] bool wants_more() const;

  Context& context_;
  std::string target_;
  HttpClient http_;
  Writer writer_;
  std::string bytes_;  // not yet taken; the first `posted_` of them are in the request
  size_t posted_ = 0;
  bool end_posted_ = false;
  uint64_t offset_ = 0;  // of bytes_
  bool ended_ = false;   // standard input has
  bool finished_ = false;
  int failures_ = 0;
  base::SteadyTime next_attempt_;
};

}  // namespace cli
