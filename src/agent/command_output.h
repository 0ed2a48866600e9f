// Both outputs of a command, told as they come: a piece of the one and of the other in turn, and at
// the end what waits in them but nothing that background children write later. Owned by what tells
// it; loop thread only; holds no more than the piece that was read.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "agent/output_pipe.h"
#include "net/task.h"
#include "net/task_group.h"

namespace agent {

class CommandOutput {
 public:
  enum Stream : size_t { out, err };

  struct Piece {
    Stream stream = out;
    std::unique_ptr<char[]> buffer;
    size_t size = 0;

    [[nodiscard]] std::string_view bytes() const { return {buffer.get(), size}; }
  };

  explicit CommandOutput(net::EventLoop& loop);

  // Make the pipes of the command, or a terminal for both; its ends are the caller's.
  Result<base::Fd> open_pipe(Stream stream) { return lanes_[stream].pipe.open_pipe(); }
  void use_terminal(base::Fd master);

  // What is there now, if anything.
  std::optional<Piece> read();
  // Until there may be something to read, or `changed` was notified otherwise.
  net::Task<net::EventLoop::Wake> wait(net::Event& changed, net::Deadline deadline);
  // Nobody reads it any more: who writes to its pipe is told so (SIGPIPE). A terminal goes on.
  void refuse(Stream stream);
  // The command is over: from now on only what waits already is read.
  void end();
  // It has ended, and all of it was read.
  [[nodiscard]] bool drained() const;
  // Gives what others still hold open to `leftovers`.
  void close(LeftoverOutput& leftovers);

 private:
  struct Lane {
    OutputPipe pipe;
    std::optional<size_t> left = std::nullopt;  // to be read, once the command is over
  };

  std::optional<Piece> read(Stream stream);

  std::array<Lane, 2> lanes_;
  Stream next_ = out;
  bool terminal_ = false;
};

}  // namespace agent
