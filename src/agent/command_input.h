// The agent's end of a command's standard input: a pipe, or a terminal. Bytes are queued and
// written as the command takes them; a command that closes its end wants no more, and what comes
// for it is dropped. Owned by what runs the command; loop thread only; who feeds it asks has_room()
// first, so the queue holds at most kQueueBytes and one piece.
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "net/task_group.h"

namespace agent {

using base::Result;

class CommandInput {
 public:
  // A pipe's capacity: a writer that is not waited for stays one pipe ahead.
  static constexpr size_t kQueueBytes = size_t{64} * 1024;

  explicit CommandInput(net::EventLoop& loop) : loop_(loop), changed_(loop) {}
  ~CommandInput() { close(); }
  CommandInput(const CommandInput&) = delete;
  CommandInput& operator=(const CommandInput&) = delete;

  // Makes the pipe and gives the command's end of it.
  Result<base::Fd> open_pipe();
  // Writes to this non-blocking terminal from now on.
  void use_terminal(base::Fd master);

  void add(std::string bytes);
  // No more comes: closes the pipe behind the queued bytes; types the end-of-file character on a
  // terminal.
  void finish();
  void close();
  [[nodiscard]] bool has_room() const { return queue_.size() - written_ < kQueueBytes; }
  // False once it was closed from either side, or never opened.
  [[nodiscard]] bool is_open() const { return end_.valid() && !finishing_; }
  // Notified when there is room again and at the end.
  [[nodiscard]] net::Event& changed() { return changed_; }

 private:
  void write_some();

  net::EventLoop& loop_;
  base::Fd end_;
  bool terminal_ = false;
  bool finishing_ = false;
  std::string queue_;
  size_t written_ = 0;  // of the queue
  net::Event changed_;
};

}  // namespace agent
