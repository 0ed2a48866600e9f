#include "agent/command_output.h"

#include <algorithm>
#include <utility>

namespace agent {
namespace {

// How much of a terminal is read after its command's end; a pipe tells what waits in it.
constexpr size_t kTerminalRestMax = size_t{64} * 1024;

}  // namespace

CommandOutput::CommandOutput(net::EventLoop& loop)
    : lanes_{Lane{.pipe = OutputPipe(loop)}, Lane{.pipe = OutputPipe(loop)}} {}

void CommandOutput::use_terminal(base::Fd master) {
  lanes_[out].pipe.use_terminal(std::move(master));
  terminal_ = true;
}

std::optional<CommandOutput::Piece> CommandOutput::read() {
  const Stream first = next_;
  const Stream second = first == out ? err : out;
  if (auto piece = read(first)) {
    next_ = second;
    return piece;
  }
  return read(second);
}

std::optional<CommandOutput::Piece> CommandOutput::read(Stream stream) {
  Lane& lane = lanes_[stream];
  const size_t most = std::min(lane.left.value_or(SIZE_MAX), lane.pipe.piece_bytes());
  if (!lane.pipe.is_open() || most == 0) {
    return std::nullopt;
  }
  Piece piece{.stream = stream, .buffer = std::make_unique_for_overwrite<char[]>(most)};
  piece.size = lane.pipe.read({piece.buffer.get(), most});
  if (lane.left) {
    // What has nothing now has told all.
    *lane.left = piece.size == 0 ? 0 : *lane.left - piece.size;
  }
  return piece.size == 0 ? std::nullopt : std::optional(std::move(piece));
}

net::Task<net::EventLoop::Wake> CommandOutput::wait(net::Event& changed, net::Deadline deadline) {
  for (Lane& lane : lanes_) {
    lane.pipe.when_readable([&changed] { changed.notify(); });
  }
  const auto wake = co_await changed.wait(deadline);
  for (Lane& lane : lanes_) {
    lane.pipe.stop_waiting();
  }
  co_return wake;
}

void CommandOutput::refuse(Stream stream) {
  if (!terminal_) {
    lanes_[stream].pipe.close(nullptr);
  }
}

void CommandOutput::end() {
  for (Lane& lane : lanes_) {
    lane.left = terminal_ ? kTerminalRestMax : lane.pipe.waiting();
  }
}

bool CommandOutput::drained() const {
  return std::ranges::all_of(lanes_, [](const Lane& lane) {
    return lane.left && (*lane.left == 0 || !lane.pipe.is_open());
  });
}

void CommandOutput::close(LeftoverOutput& leftovers) {
  for (Lane& lane : lanes_) {
    lane.pipe.close(terminal_ ? nullptr : &leftovers);
  }
}

}  // namespace agent
