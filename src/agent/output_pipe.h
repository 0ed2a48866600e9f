// The agent's end of one output of a command, a pipe or a terminal, read piece by piece. A pipe
// that is found full gets larger. Owned by what runs the command; loop thread only; holds nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "agent/leftover_output.h"
#include "base/error.h"
#include "net/event_loop.h"

namespace agent {

using base::Result;

class OutputPipe {
 public:
  // A pipe's usual capacity, and what one that keeps being full gets.
  static constexpr size_t kReadBytes = size_t{64} * 1024;
  static constexpr size_t kReadBytesMax = size_t{256} * 1024;

  explicit OutputPipe(net::EventLoop& loop) : loop_(loop) {}
  ~OutputPipe() { close(nullptr); }
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  // Makes the pipe and gives the command's end of it.
  Result<base::Fd> open_pipe();
  void use_terminal(base::Fd master) { end_ = std::move(master); }

  // Calls back once when there is something to read, or the end.
  void when_readable(std::function<void()> callback);
  void stop_waiting();
  // Bytes read; 0 when there are none now, or the buffer cannot be written to. Closes at the end of
  // the output.
  size_t read(std::span<char> buffer);
  // A piece of that size was taken past read(), by splice(2).
  void note_piece(size_t size);
  // What a read should ask for.
  [[nodiscard]] size_t piece_bytes() const { return piece_bytes_; }
  // It was full time and again.
  [[nodiscard]] bool floods() const { return piece_bytes_ == kReadBytesMax; }
  // Bytes that wait in it now.
  [[nodiscard]] size_t waiting() const;
  [[nodiscard]] bool is_open() const { return end_.valid(); }
  [[nodiscard]] int fd() const { return end_.get(); }
  // Gives what others still hold open to `leftovers`; without one it is simply closed.
  void close(LeftoverOutput* leftovers);

 private:
  net::EventLoop& loop_;
  base::Fd end_;
  bool pipe_ = false;
  size_t piece_bytes_ = kReadBytes;
  int full_pieces_ = 0;
};

}  // namespace agent
